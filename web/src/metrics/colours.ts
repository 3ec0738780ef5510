// Colours of series: a fixed order of hues that are distinct in both themes.

export const COLOURS = 12;

/** The colour of a series by its place. The style sheet has the values for each theme. */
export function colourOf(place: number): string {
  return `--series-${place % COLOURS}`;
}

export function resolved(variable: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
}

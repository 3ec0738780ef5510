// The theme: that of the system, or the one that the person chose in this browser.

export type Theme = "system" | "light" | "dark";

const KEY = "sandur.theme";

export function chosenTheme(): Theme {
  try {
    const stored = localStorage.getItem(KEY);
    return stored === "light" || stored === "dark" ? stored : "system";
  } catch {
    return "system"; // Browsers that block storage throw.
  }
}

export function isDark(theme: Theme = chosenTheme()): boolean {
  return theme === "system" ? matchMedia("(prefers-color-scheme: dark)").matches : theme === "dark";
}

export function applyTheme(theme: Theme): void {
  document.documentElement.dataset["theme"] = isDark(theme) ? "dark" : "light";
}

export function chooseTheme(theme: Theme): void {
  try {
    if (theme === "system") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, theme);
  } catch {
    // The theme lasts until the page is closed.
  }
  applyTheme(theme);
  dispatchEvent(new Event("sandur-theme"));
}

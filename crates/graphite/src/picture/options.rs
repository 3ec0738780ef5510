//! Parameters of an image.

use super::canvas::{Anchor, TextStyle};
use super::colors::Color;
use super::pie_options::{Labels, Mode, Pie};
use super::templates::TEMPLATES;
use crate::error::{Error, Result};
use crate::number::parse_float;

/// The most pixels of an image.
pub(crate) const PIXELS_MAX: u64 = 4_000_000;
/// The shortest side, in pixels.
const SIDE_MIN: f64 = 10.0;
/// The longest side, in pixels, which bounds the points of a line.
pub(crate) const SIDE_MAX: f64 = 8_000.0;
const TEXT_MAX: usize = 1_000;

/// How the gap between two values is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineMode {
    /// Sloped lines, interrupted at missing values.
    Slope,
    /// Steps, interrupted at missing values.
    Staircase,
    /// Sloped lines across missing values.
    Connected,
}

/// Which series are filled down to the axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AreaMode {
    /// None, except series with that option.
    None,
    /// The first series.
    First,
    /// All series.
    All,
    /// All series, stacked.
    Stacked,
}

/// The options of an image.
#[derive(Clone, Debug)]
pub(crate) struct PictureOptions {
    pub(crate) width: f64,
    pub(crate) height: f64,
    pub(crate) margin: f64,
    pub(crate) title: String,
    pub(crate) vertical_title: String,
    pub(crate) font_size: f64,
    pub(crate) background: Color,
    pub(crate) foreground: Color,
    pub(crate) major: Color,
    pub(crate) minor: Color,
    pub(crate) colors: Vec<Color>,
    pub(crate) line_mode: LineMode,
    pub(crate) line_width: f64,
    pub(crate) area_mode: AreaMode,
    pub(crate) area_opacity: Option<f64>,
    pub(crate) least: Option<f64>,
    pub(crate) most: Option<f64>,
    /// Whether units are powers of 1024, and whether values have units.
    pub(crate) is_binary: bool,
    pub(crate) has_units: bool,
    /// Set by the request; `None` decides by the number of series.
    pub(crate) hides_legend: Option<bool>,
    pub(crate) hides_grid: bool,
    pub(crate) hides_x: bool,
    pub(crate) hides_y: bool,
    pub(crate) null_as_zero: bool,
    /// The options of a pie, if the image is one.
    pub(crate) pie: Option<Pie>,
}

/// Parameters by name.
struct Pairs<'a>(&'a [(String, String)]);

impl<'a> Pairs<'a> {
    fn text(&self, name: &str) -> Option<&'a str> {
        self.0.iter().rev().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    fn number(&self, name: &'static str) -> Result<Option<f64>> {
        let Some(text) = self.text(name).filter(|text| !text.is_empty()) else { return Ok(None) };
        let number = parse_float(text).filter(|number| number.is_finite());
        number.map(Some).ok_or_else(|| Error::invalid(format!("{name} is not a number")))
    }

    fn flag(&self, name: &str) -> Option<bool> {
        let text = self.text(name)?;
        Some(matches!(text.to_ascii_lowercase().as_str(), "true" | "1" | "yes" | "on"))
    }

    fn color(&self, name: &'static str, preset: &str) -> Result<Color> {
        let text = self.text(name).filter(|text| !text.is_empty()).unwrap_or(preset);
        Color::parse(text).ok_or_else(|| Error::invalid(format!("{name}: unknown colour '{text:.40}'")))
    }

    /// The value that a word stands for; without the parameter, that of the first word.
    fn one_of<T: Copy>(&self, name: &'static str, words: &[(&'static str, T)]) -> Result<T> {
        let text = self.text(name).filter(|text| !text.is_empty()).unwrap_or(words[0].0);
        let found = words.iter().find(|(word, _)| *word == text);
        found.map(|(_, meaning)| *meaning).ok_or_else(|| {
            let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            Error::invalid(format!("{name} is '{text:.40}'; it may be {}", known.join(", ")))
        })
    }

    fn title(&self, name: &str) -> String {
        self.text(name).unwrap_or_default().chars().take(TEXT_MAX).collect()
    }
}

fn pie(pairs: &Pairs<'_>) -> Result<Pie> {
    let modes = [("average", Mode::Average), ("maximum", Mode::Maximum), ("minimum", Mode::Minimum)];
    let labels = [("percent", Labels::Percent), ("number", Labels::Number), ("none", Labels::None)];
    Ok(Pie {
        mode: pairs.one_of("pieMode", &modes)?,
        labels: pairs.one_of("valueLabels", &labels)?,
        least: pairs.number("valueLabelsMin")?.unwrap_or(5.0),
        label_color: pairs.color("valueLabelsColor", "black")?,
        are_labels_rotated: pairs.one_of("pieLabels", &[("horizontal", false), ("rotated", true)])?,
    })
}

impl PictureOptions {
    /// Parses parameters. The last occurrence of a parameter counts; unknown ones are ignored.
    pub(crate) fn read(pairs: &[(String, String)]) -> Result<Self> {
        let pairs = Pairs(pairs);
        let side = |name, preset| Ok::<_, Error>(pairs.number(name)?.unwrap_or(preset).trunc());
        let (width, height) = (side("width", 330.0)?, side("height", 250.0)?);
        let is_side = |side| (SIDE_MIN..=SIDE_MAX).contains(side);
        if !(is_side(&width) && is_side(&height) && width * height <= PIXELS_MAX as f64) {
            return Err(Error::Limit(format!(
                "an image of {width} x {height} pixels (width, height); each side has from {SIDE_MIN} to \
                 {SIDE_MAX}, and both together make at most {PIXELS_MAX}"
            )));
        }
        let named = pairs.text("template").unwrap_or_default();
        let template = TEMPLATES.iter().find(|one| one.name == named).unwrap_or(&TEMPLATES[0]);
        let colors = pairs.text("colorList").filter(|list| !list.is_empty()).unwrap_or(template.lines);
        let colors: Option<Vec<Color>> = colors.split(',').take(TEXT_MAX).map(Color::parse).collect();
        let graph_only = pairs.flag("graphOnly").unwrap_or(false);
        let hides = |name: &str| graph_only || pairs.flag(name).unwrap_or(false);
        let hides_axes = hides("hideAxes");
        let units = pairs.text("yUnitSystem").unwrap_or("si");
        Ok(Self {
            width,
            height,
            margin: pairs.number("margin")?.unwrap_or(10.0).clamp(0.0, width.min(height) / 4.0),
            title: if graph_only { String::new() } else { pairs.title("title") },
            vertical_title: if graph_only { String::new() } else { pairs.title("vtitle") },
            font_size: pairs.number("fontSize")?.unwrap_or(10.0).clamp(4.0, 72.0),
            background: pairs.color("bgcolor", template.background)?,
            foreground: pairs.color("fgcolor", template.foreground)?,
            major: pairs.color("majorGridLineColor", template.major)?,
            minor: pairs.color("minorGridLineColor", template.minor)?,
            colors: colors.ok_or_else(|| Error::invalid("colorList has an unknown colour"))?,
            line_mode: match pairs.text("lineMode").unwrap_or("slope") {
                "staircase" => LineMode::Staircase,
                "connected" => LineMode::Connected,
                _ => LineMode::Slope,
            },
            line_width: pairs.number("lineWidth")?.unwrap_or(1.2).clamp(0.1, 100.0),
            area_mode: match pairs.text("areaMode").unwrap_or("none") {
                "first" => AreaMode::First,
                "all" => AreaMode::All,
                "stacked" => AreaMode::Stacked,
                _ => AreaMode::None,
            },
            area_opacity: pairs.number("areaAlpha")?,
            least: pairs.number("yMin")?,
            most: pairs.number("yMax")?,
            is_binary: units == "binary",
            has_units: units != "none",
            hides_legend: if graph_only { Some(true) } else { pairs.flag("hideLegend") },
            hides_grid: hides("hideGrid"),
            hides_x: hides_axes || hides("hideXAxis"),
            hides_y: hides_axes || hides("hideYAxis"),
            null_as_zero: pairs.flag("drawNullAsZero").unwrap_or(false),
            pie: match pairs.one_of("graphType", &[("line", false), ("pie", true)])? {
                true => Some(pie(&pairs)?),
                false => None,
            },
        })
    }

    /// The default style of texts.
    pub(super) fn text(&self, anchor: Anchor) -> TextStyle {
        TextStyle { color: self.foreground, size: self.font_size, anchor, turn: 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<PictureOptions> {
        let pairs: Vec<(String, String)> =
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        PictureOptions::read(&pairs)
    }

    #[test]
    fn an_image_has_bounds_and_the_colours_of_its_template() {
        let options = read(&[("template", "plain"), ("width", "800"), ("fgcolor", "red")]).unwrap();
        assert_eq!((options.width, options.height), (800.0, 250.0));
        assert_eq!(Some(options.background), Color::parse("white"));
        assert_eq!(Some(options.foreground), Color::parse("red"));
        for (name, value) in [
            ("width", "100000"),
            ("height", "-1"),
            ("width", "nan"),
            ("width", "x"),
            ("bgcolor", "x"),
            ("colorList", "red,x"),
            ("yMin", "inf"),
        ] {
            assert!(read(&[(name, value)]).is_err(), "{name}={value}");
        }
    }
}

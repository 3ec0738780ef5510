//! Colour templates, as in graphite-web's example of `graphTemplates.conf`.

/// The colours of a template.
pub(crate) struct Template {
    pub(crate) name: &'static str,
    pub(crate) background: &'static str,
    pub(crate) foreground: &'static str,
    pub(crate) major: &'static str,
    pub(crate) minor: &'static str,
    pub(crate) lines: &'static str,
}

const LINES: &str = "blue,green,red,purple,brown,yellow,aqua,grey,magenta,pink,gold,rose";
const SOLARIZED: &str = "268bd2aa,859900aa,dc322faa,d33682aa,db4b16aa,b58900aa,2aa198aa,6c71c4aa";

const DEFAULT: Template = Template {
    name: "default",
    background: "black",
    foreground: "white",
    major: "white",
    minor: "grey",
    lines: LINES,
};

/// All templates. The first one applies if the request names none, or an unknown one.
pub(crate) const TEMPLATES: [Template; 6] = [
    DEFAULT,
    Template {
        name: "plain",
        background: "white",
        foreground: "black",
        major: "rose",
        minor: "grey",
        lines: LINES,
    },
    Template { name: "classic", ..DEFAULT },
    Template {
        name: "noc",
        lines: "blue,green,red,yellow,purple,brown,aqua,grey,magenta,pink,gold,rose",
        ..DEFAULT
    },
    Template {
        name: "solarized-light",
        background: "#fdf6e3",
        foreground: "#657b83",
        major: "#073642",
        minor: "#586e75",
        lines: SOLARIZED,
    },
    Template {
        name: "solarized-dark",
        background: "#002b36",
        foreground: "#839496",
        major: "#fdf6e3",
        minor: "#eee8d5",
        lines: SOLARIZED,
    },
];

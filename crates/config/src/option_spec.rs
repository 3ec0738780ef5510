//! An entry of a table of options.

use super::settings::Settings;
use super::slot::Slot;

/// One option.
pub struct OptionSpec {
    /// Key in the file, with dots between tables.
    pub key: &'static str,
    /// A description of the default, if it depends on the machine.
    pub default: Option<&'static str>,
    /// What it does, in one or two sentences.
    pub help: &'static str,
    /// The setting.
    pub slot: fn(&mut Settings) -> Slot<'_>,
}

/// An option whose default is that of the settings.
pub const fn option(
    key: &'static str,
    help: &'static str,
    slot: fn(&mut Settings) -> Slot<'_>,
) -> OptionSpec {
    OptionSpec { key, default: None, help, slot }
}

impl OptionSpec {
    /// Describes the default.
    pub const fn default_in_words(mut self, words: &'static str) -> Self {
        self.default = Some(words);
        self
    }
}

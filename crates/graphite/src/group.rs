//! The groups in which functions are listed, and the programs that they come from.

/// Graphite's groups of functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Naming.
    Alias,
    /// Computations over time.
    Calculate,
    /// Aggregations of several series.
    Combine,
    /// Removal of values.
    FilterData,
    /// Selection of series.
    FilterSeries,
    /// Drawing.
    Graph,
    /// Sorting.
    Sorting,
    /// Other functions.
    Special,
    /// Functions of each value.
    Transform,
}

impl Group {
    /// All groups.
    pub const ALL: [Self; 9] = [
        Self::Alias,
        Self::Calculate,
        Self::Combine,
        Self::FilterData,
        Self::FilterSeries,
        Self::Graph,
        Self::Sorting,
        Self::Special,
        Self::Transform,
    ];

    /// Graphite's name of the group.
    pub fn name(self) -> &'static str {
        match self {
            Self::Alias => "Alias",
            Self::Calculate => "Calculate",
            Self::Combine => "Combine",
            Self::FilterData => "Filter Data",
            Self::FilterSeries => "Filter Series",
            Self::Graph => "Graph",
            Self::Sorting => "Sorting",
            Self::Special => "Special",
            Self::Transform => "Transform",
        }
    }
}

/// The origin of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Graphite itself.
    Graphite,
    /// carbonapi alone.
    Carbonapi,
}

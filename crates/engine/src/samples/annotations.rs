//! Pages of annotations of a block: exemplars and metadata.

use bytes::Bytes;
use sandur_format::Error as FormatError;
use sandur_format::codec::Piece;
use sandur_format::sample_block::{ExemplarPage, MetadataPage, SeriesExemplars};
use sandur_model::MetricMetadata;

/// A page of exemplars or metadata.
pub(super) trait AnnotationPage: Clone + Send + 'static {
    /// What the page contains.
    type Item: Send + 'static;

    fn piece(&self) -> Piece;
    fn memory_bytes(&self) -> u64;
    fn decode(&self, bytes: &Bytes) -> Result<Vec<Self::Item>, FormatError>;
}

impl AnnotationPage for ExemplarPage {
    type Item = SeriesExemplars;

    fn piece(&self) -> Piece {
        self.piece()
    }

    fn memory_bytes(&self) -> u64 {
        self.memory_bytes()
    }

    fn decode(&self, bytes: &Bytes) -> Result<Vec<SeriesExemplars>, FormatError> {
        self.decode(bytes)
    }
}

impl AnnotationPage for MetadataPage {
    type Item = MetricMetadata;

    fn piece(&self) -> Piece {
        self.piece()
    }

    fn memory_bytes(&self) -> u64 {
        self.memory_bytes()
    }

    fn decode(&self, bytes: &Bytes) -> Result<Vec<MetricMetadata>, FormatError> {
        self.decode(bytes)
    }
}

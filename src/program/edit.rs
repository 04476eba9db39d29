//! Deletion of statements.

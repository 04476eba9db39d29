//! Being written.
#![cfg(test)]

//! Owns what is known of the GPUs of a machine without asking them: the driver and the models, from `/proc`.
//!
//! Invariant: only what the driver itself says; nothing where there is none.
//! Must not start a process or open a device.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Driver and GPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// Version of the NVIDIA driver.
    pub driver: Option<String>,
    /// Models of the GPUs, by their place on the bus.
    pub gpus: Vec<String>,
}

impl Machine {
    /// This machine.
    pub fn here() -> Machine {
        Machine::read(Path::new("/proc/driver/nvidia"))
    }

    fn read(folder: &Path) -> Machine {
        let driver = fs::read_to_string(folder.join("version")).ok().and_then(|text| driver(&text));
        let mut places: Vec<_> =
            fs::read_dir(folder.join("gpus")).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        places.sort();
        let texts = places.iter().filter_map(|place| fs::read_to_string(place.join("information")).ok());
        Machine { driver, gpus: texts.filter_map(|text| model(&text)).collect() }
    }
}

/// The version stands behind the words `Kernel Module`, the open one's behind `for x86_64`.
fn driver(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with("NVRM version:"))?;
    let is_version = |word: &&str| {
        let mut parts = word.split('.');
        word.contains('.') && parts.all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
    };
    line.split_whitespace().find(is_version).map(str::to_owned)
}

fn model(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with("Model:"))?;
    Some(line.trim_start_matches("Model:").trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_driver_and_the_models_are_read_and_none_is_none() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Machine::read(folder.path()), Machine::default());
        let version = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build  (x)\nGCC version:  gcc version 12.2.0\n";
        fs::write(folder.path().join("version"), version).unwrap();
        let gpu = folder.path().join("gpus/0000:18:00.0");
        fs::create_dir_all(&gpu).unwrap();
        fs::write(gpu.join("information"), "Model: \t\t NVIDIA H200\nIRQ:   \t\t 1\n").unwrap();
        let machine = Machine::read(folder.path());
        assert_eq!(machine, Machine { driver: Some("570.86.15".into()), gpus: vec!["NVIDIA H200".into()] });
        let closed = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023";
        assert_eq!(driver(closed).as_deref(), Some("535.104.05"));
    }
}

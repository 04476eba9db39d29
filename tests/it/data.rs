//! Data files that shrink with the program: to the one row, whatever is beside it, and never in the user's folder.

use std::fs;
use std::path::Path;

use crate::support::{new_python, reduce, report, run, snapshot, text};

const TRAIN: &str = r#"import csv
import torch
import torch.nn.functional as F

with open("data/rows.csv", newline="", encoding="utf-8-sig") as handle:
    rows = list(csv.DictReader(handle))
with open("data/names.txt") as handle:
    names = [line.strip() for line in handle]
with open("data/names.csv", "w") as handle:
    handle.write("name\n" + "\n".join(names))
with open("data/names.csv") as handle:
    written = handle.read()
other = [open("data/" + name, "rb").read() for name in ("wide.csv", "link.csv", "kept.csv", "empty.csv")]
days = torch.tensor([int(row["day"]) for row in rows], device="cuda")
logits = torch.zeros(len(rows), 7, device="cuda")
print(F.cross_entropy(logits, days).item(), len(names), len(written), len(other))
"#;

fn job(folder: &Path) -> serde_json::Value {
    let out = folder.join("crash.reduced");
    let mut command = reduce();
    command.arg(folder.join("case/crash.yaml")).arg("--out").arg(&out).args(["--device", "emulated", "-v"]);
    let output = run(&mut command);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    report(&out)
}

fn write(folder: &Path, files: &[(&str, &[u8])]) {
    for (path, bytes) in files {
        let path = folder.join("case").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

#[test]
fn a_table_comes_down_to_its_row_and_what_cannot_be_cut_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let rows = (0..300).map(|row| format!("\"r{row}\r\nnoted\",{}\r\n", if row == 201 { 7 } else { row % 7 }));
    let table = "\u{feff}name,day\r\n".to_owned() + &rows.collect::<String>();
    let yaml = format!("command: python train.py\npython: {}\nkeep: [data/kept.csv]\n", new_python().display());
    write(
        folder.path(),
        &[
            ("crash.yaml", yaml.as_bytes()),
            ("train.py", TRAIN.as_bytes()),
            ("data/rows.csv", table.as_bytes()),
            ("data/names.txt", b"one\ntwo\nthree\n"),
            ("data/wide.csv", b"\xff\xfex\0\n\x001\0\n\x002\0\n\0"),
            ("data/kept.csv", b"x\n1\n2\n"),
            ("data/empty.csv", b""),
        ],
    );
    std::os::unix::fs::symlink("kept.csv", folder.path().join("case/data/link.csv")).unwrap();
    let before = snapshot(&folder.path().join("case"));
    let report = job(folder.path());
    assert_eq!(before, snapshot(&folder.path().join("case")), "the user's files were touched");
    let left = |name: &str| fs::read(folder.path().join("crash.reduced/source/data").join(name)).unwrap();
    assert_eq!(String::from_utf8(left("rows.csv")).unwrap(), "\u{feff}name,day\r\n\"r201\r\nnoted\",7\r\n");
    for name in ["wide.csv", "kept.csv", "link.csv", "empty.csv"] {
        assert_eq!(left(name), fs::read(folder.path().join("case/data").join(name)).unwrap(), "{name}");
    }
    assert_eq!((&report["origin"]["row"], &report["confirmed"]["hits"]), (&202.into(), &3.into()));
    assert!(report["runs"]["by_phase"]["data"].as_u64().unwrap() <= 4, "{}", report["runs"]);
    let (now, whole) = (&report["source"]["data_bytes"], &report["original"]["data_bytes"]);
    assert!(now.as_u64().unwrap() * 20 < whole.as_u64().unwrap(), "{now} of {whole}");
}

#[test]
fn a_row_that_no_evidence_names_is_found_by_halving() {
    let folder = tempfile::tempdir().unwrap();
    let program = "import numpy\nimport torch\n\n\
                   days = torch.from_numpy(numpy.loadtxt(\"rows.csv\", delimiter=\",\", dtype=\"int64\"))\n\
                   print(torch.zeros(7, 2, device=\"cuda\")[days[:, 1].cuda()].sum().item())\n";
    let rows = (0..5000).map(|row| format!("{row},{}\n", if row == 3201 { 7 } else { row % 7 }));
    let yaml = format!("command: python train.py\npython: {}\n", new_python().display());
    let table = rows.collect::<String>();
    write(
        folder.path(),
        &[("crash.yaml", yaml.as_bytes()), ("train.py", program.as_bytes()), ("rows.csv", table.as_bytes())],
    );
    let report = job(folder.path());
    let data = &report["runs"]["by_phase"]["data"];
    println!("{data} runs for the data; origin {}", report["origin"]);
    let left = fs::read_to_string(folder.path().join("crash.reduced/source/rows.csv")).unwrap();
    assert!(left.lines().any(|line| line == "3201,7") && left.lines().count() <= 2, "{left}");
    assert!(data.as_u64().unwrap() <= 25, "{}", report["runs"]);
}

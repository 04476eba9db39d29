//! Owns running entries with one interpreter: a process of its own for each, forked from a server that has imported torch.
//!
//! Invariant: an entry's folder is only read; every process it starts is gone before its verdict is told; what is told,
//! and in which order, does not depend on how many run at once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::CorpusError;
use super::entry::Entry;
use super::judge::{Answer, Next, Reason, Verdict, next};
use crate::case::Device as Wanted;
use crate::environment::Python;
use crate::harness;
use crate::scratch::Scratch;
use crate::signature::Catalog;
use crate::trial::{
    Device, Event, MOST_OUTPUT, Mode, Observe, Outcome, Pool, PoolError, PoolSpec, ProgramSpec, Request, TrialEnd,
    TrialId, Variation,
};
use crate::verdict::{self, Cause, Target};

/// Time for one run where nothing else is said.
const TIMEOUT: Duration = Duration::from_secs(60);
/// What a fresh interpreter may take longer: it imports torch.
const IMPORT: Duration = Duration::from_secs(60);
/// How long a wait lasts before Ctrl-C is looked at again.
const TICK: Duration = Duration::from_millis(50);
/// Lines of standard error that are kept of a run.
const TAIL: usize = 30;

/// Whether a GPU can be used with an interpreter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gpu {
    /// There is one.
    Here,
    /// There is none, or torch is not built for it.
    Absent,
}

/// How entries are run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Entries at once.
    pub jobs: usize,
    /// Forked or fresh.
    pub mode: Mode,
    /// Runs of an entry that does what is expected.
    pub runs: usize,
    /// Where CUDA calls go; `None` is where each entry was seen.
    pub device: Option<Wanted>,
    /// Whether there is a GPU.
    pub gpu: Gpu,
    /// Time for one run, where the entry says nothing.
    pub timeout: Option<Duration>,
    /// Host memory that one run may use, so that the machine never runs out of it.
    pub memory: Option<u64>,
    /// Whether entries are kept from writing elsewhere.
    pub sandbox: bool,
    /// Set by Ctrl-C.
    pub interrupted: Arc<AtomicBool>,
}

/// What came of an entry.
#[derive(Clone, Debug)]
pub struct Done {
    /// What is to be said of it.
    pub verdict: Verdict,
    /// Where it ran.
    pub device: Device,
    /// Runs that were made.
    pub runs: usize,
    /// Seconds of all of them.
    pub seconds: f64,
    /// The end of what the last run printed on standard error.
    pub log: String,
}

/// What a server must be started with for an entry.
type Group = (bool, Vec<String>, Option<u64>);

struct Work<'a> {
    entry: &'a Entry,
    device: Device,
    answers: Vec<(Mode, Answer)>,
    seconds: f64,
    log: String,
}

/// Runs entries and tells of each as soon as all before it are done; those that Ctrl-C kept from a verdict are `None`.
///
/// # Errors
/// When the harness or a server fails.
pub fn run(
    entries: &[Entry],
    python: &Python,
    options: &Options,
    told: &mut dyn FnMut(usize, &Done),
) -> Result<Vec<Option<Done>>, CorpusError> {
    let scratch = Scratch::new().map_err(|source| CorpusError::File { path: std::env::temp_dir(), source })?;
    let harness = harness::install(&scratch.path().join("harness"))?;
    let catalog = harness.join("catalog.json");
    fs::write(&catalog, Catalog::embedded().json())
        .map_err(|source| CorpusError::File { path: catalog.clone(), source })?;
    let torch = python.torch.as_ref().map_or("", |torch| torch.version.as_str());
    let mut done: Vec<Option<Done>> = Vec::new();
    let mut groups: BTreeMap<Group, Vec<usize>> = BTreeMap::new();
    for (number, entry) in entries.iter().enumerate() {
        let device = device_of(entry, options);
        let cannot = entry
            .refuses(torch)
            .map(Reason::WrongTorch)
            .or_else(|| (device == Device::Cuda && options.gpu == Gpu::Absent).then_some(Reason::NoGpu))
            .or_else(|| missing(entry).map(Reason::DataMissing));
        done.push(cannot.map(|reason| Done {
            verdict: Verdict::CannotRun(reason),
            device,
            runs: 0,
            seconds: 0.0,
            log: String::new(),
        }));
        if done[number].is_none() {
            let seed = entry.pins.seed;
            groups.entry((device == Device::Cuda, entry.options.clone(), seed)).or_default().push(number);
        }
    }
    let mut shown = 0;
    let mut runner = Runner { entries, options, torch, scratch: scratch.path(), harness: &harness, python, number: 0 };
    show(&done, &mut shown, told);
    for (group, numbers) in groups {
        runner.run(&group, numbers, &mut |number, one| {
            done[number] = Some(one);
            show(&done, &mut shown, told);
        })?;
    }
    Ok(done)
}

fn show(done: &[Option<Done>], shown: &mut usize, told: &mut dyn FnMut(usize, &Done)) {
    while let Some(Some(one)) = done.get(*shown) {
        told(*shown, one);
        *shown += 1;
    }
}

fn device_of(entry: &Entry, options: &Options) -> Device {
    match (options.device, options.gpu) {
        (None, _) => entry.device,
        (Some(Wanted::Cuda), _) | (Some(Wanted::Auto), Gpu::Here) => Device::Cuda,
        (Some(Wanted::Emulated), _) | (Some(Wanted::Auto), Gpu::Absent) => Device::Emulated,
    }
}

fn missing(entry: &Entry) -> Option<String> {
    entry.data.iter().find(|path| !entry.folder.join(path).is_file()).cloned()
}

struct Runner<'a> {
    entries: &'a [Entry],
    options: &'a Options,
    torch: &'a str,
    scratch: &'a Path,
    harness: &'a Path,
    python: &'a Python,
    number: u64,
}

impl<'a> Runner<'a> {
    /// Runs the entries that share a server.
    fn run(
        &mut self,
        group: &Group,
        numbers: Vec<usize>,
        over: &mut dyn FnMut(usize, Done),
    ) -> Result<(), CorpusError> {
        let entries = self.entries;
        let device = if group.0 { Device::Cuda } else { Device::Emulated };
        let mut work: BTreeMap<usize, Work<'a>> = numbers
            .iter()
            .map(|number| {
                let entry = &entries[*number];
                (*number, Work { entry, device, answers: Vec::new(), seconds: 0.0, log: String::new() })
            })
            .collect();
        let mut queue: VecDeque<(usize, Mode)> =
            numbers.into_iter().map(|number| (number, self.mode(&entries[number]))).collect();
        let mut pool: Option<Pool> = None;
        let mut flying: BTreeMap<TrialId, (usize, Mode)> = BTreeMap::new();
        while !queue.is_empty() || !flying.is_empty() {
            if self.options.interrupted.load(Ordering::Relaxed) {
                return Ok(());
            }
            let server = match &mut pool {
                Some(server) => server,
                None => pool.insert(self.serve(group, device)?),
            };
            while flying.len() < self.options.jobs.max(1)
                && let Some((number, mode)) = queue.pop_front()
            {
                self.number += 1;
                let id = TrialId(self.number);
                server.submit(id, &self.request(&entries[number], mode))?;
                flying.insert(id, (number, mode));
            }
            let Event::Finished(outcome) = server.next(Instant::now() + TICK) else { continue };
            let Some((number, mode)) = flying.remove(&outcome.id) else { continue };
            if flying.is_empty() && !server.alive() {
                pool = None;
            }
            let Some(one) = work.get_mut(&number) else { continue };
            one.take(mode, &outcome, self.limit(one.entry, mode));
            let _gone = fs::remove_dir_all(&outcome.scratch);
            let expected = one.entry.expected_with(self.torch);
            match next(expected, &one.answers, self.mode(one.entry), self.options.runs) {
                // In front, so that verdicts come in the order of the entries.
                Next::Ask(mode) => queue.push_front((number, mode)),
                Next::Say(verdict) => {
                    if let Some(one) = work.remove(&number) {
                        over(number, one.done(verdict));
                    }
                }
            }
        }
        Ok(())
    }

    /// What a variable does when torch is imported, it does in a fresh interpreter only.
    fn mode(&self, entry: &Entry) -> Mode {
        if entry.place.env.is_empty() { self.options.mode } else { Mode::Exec }
    }

    fn limit(&self, entry: &Entry, mode: Mode) -> Duration {
        let timeout = entry.timeout.or(self.options.timeout).unwrap_or(TIMEOUT);
        match mode {
            Mode::Exec => timeout + IMPORT,
            Mode::Fork => timeout,
        }
    }

    fn request(&self, entry: &Entry, mode: Mode) -> Request {
        Request {
            variation: Variation::default(),
            changed: Vec::new(),
            ready: Vec::new(),
            removed: Vec::new(),
            mode,
            pins: entry.pins,
            observe: Observe::default(),
            watch: None,
            timeout: self.limit(entry, mode),
            place: Some(entry.place.clone()),
        }
    }

    /// A server over an empty project that has imported torch, unless every entry gets a fresh interpreter anyway.
    fn serve(&self, (_, options, seed): &Group, device: Device) -> Result<Pool, CorpusError> {
        let scratch = tempfile::Builder::new()
            .prefix("server-")
            .tempdir_in(self.scratch)
            .map_err(|source| CorpusError::File { path: self.scratch.to_owned(), source })?
            .keep();
        let project = scratch.join("project");
        fs::create_dir(&project).map_err(|source| CorpusError::File { path: project.clone(), source })?;
        let offline = ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE"];
        let spec = PoolSpec {
            python: self.python.executable.clone(),
            options: options.clone(),
            unset: Vec::new(),
            harness: self.harness.to_owned(),
            project,
            workdir: ".".to_owned(),
            program: ProgramSpec { kind: "script".to_owned(), target: String::new(), argv: Vec::new() },
            env: offline.map(|name| (name.to_owned(), "1".to_owned())).to_vec(),
            hash_seed: *seed,
            preload: match self.options.mode {
                Mode::Fork => vec!["torch".to_owned()],
                Mode::Exec => Vec::new(),
            },
            device,
            network: false,
            write: Vec::new(),
            sandbox: self.options.sandbox,
            memory: self.options.memory,
            scratch,
            catalog: self.harness.join("catalog.json"),
        };
        Ok(Pool::start(spec)?)
    }
}

impl Work<'_> {
    fn take(&mut self, mode: Mode, outcome: &Outcome, limit: Duration) {
        self.seconds += outcome.seconds;
        let lines: Vec<&str> = outcome.stderr.lines().collect();
        self.log = lines[lines.len().saturating_sub(TAIL)..].join("\n");
        self.answers.push((mode, answer(self.entry, outcome, limit)));
    }

    fn done(self, verdict: Verdict) -> Done {
        Done { verdict, device: self.device, runs: self.answers.len(), seconds: self.seconds, log: self.log }
    }
}

/// What a run says of its entry.
fn answer(entry: &Entry, outcome: &Outcome, limit: Duration) -> Answer {
    let target = Target {
        signature: entry.signature.clone(),
        level: entry.level,
        chain: Vec::new(),
        offence: None,
        sample_counts: false,
    };
    if outcome.end == TrialEnd::OutputLimit {
        return Answer::Otherwise(format!("it printed more than {} MiB and was ended", MOST_OUTPUT >> 20));
    }
    let report = outcome.report.as_ref();
    match verdict::judge(outcome, &target, &|_| None) {
        verdict::Verdict::Same => Answer::Crashes,
        verdict::Verdict::Clean => Answer::Passes,
        verdict::Verdict::Other { failure, .. } => Answer::Otherwise(failure),
        verdict::Verdict::Invalid { error, missing, .. } => {
            let module = missing.filter(|missing| missing.kind == "module").map(|missing| missing.name);
            if let Some(name) = module.filter(|name| !own_modules(entry).contains(top(name))) {
                return Answer::Cannot(Reason::PackageMissing(name));
            }
            match error.strip_prefix("FileNotFoundError: ") {
                Some(what) => {
                    let path = what.rsplit(": ").next().unwrap_or(what).trim_matches('\'');
                    Answer::Cannot(Reason::DataMissing(path.to_owned()))
                }
                None => Answer::Otherwise(error),
            }
        }
        verdict::Verdict::Unresolved { cause } => match cause {
            Cause::TimeOut => Answer::Hangs(format!("no end within {} s", limit.as_secs_f64())),
            Cause::OutOfMemory => Answer::Cannot(Reason::Machine("out of memory".to_owned())),
            Cause::DeviceBusy => Answer::Cannot(Reason::Machine("the device is busy".to_owned())),
            Cause::NotEmulated => {
                let what = report.and_then(|report| report.not_emulated.clone());
                Answer::Cannot(Reason::NotEmulated(what.unwrap_or_else(|| "what it asks for".to_owned())))
            }
            Cause::LostWorker | Cause::Dropped => Answer::Lost,
        },
    }
}

fn top(module: &str) -> &str {
    module.split('.').next().unwrap_or(module)
}

/// Names that a module of the entry itself has: one that is missing there is a fault of the entry.
fn own_modules(entry: &Entry) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut folders: Vec<PathBuf> = vec![entry.place.project.clone()];
    while let Some(folder) = folders.pop() {
        for inside in fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = inside.file_name().to_string_lossy().into_owned();
            if inside.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(inside.path());
            }
            names.insert(name.strip_suffix(".py").unwrap_or(&name).to_owned());
        }
    }
    names
}

/// A server that did not start has no torch that could be imported, or no sandbox.
impl From<&PoolError> for Reason {
    fn from(error: &PoolError) -> Self {
        Reason::Machine(error.to_string())
    }
}

//! One run of the main job: the case, the machine, the oracle and who is told about it.
//!
//! Invariant: everything that a run writes lies in the bundle folder or in its own scratch folder, which goes with it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::bundle::secrets::Secrets;
use crate::candidate::Candidate;
use crate::case::{Invocation, Program as CaseProgram};
use crate::evidence::Ground;
use crate::harness;
use crate::ledger::Ledger;
use crate::oracle::{Bounds, Look, Oracle, Question, Setting};
use crate::program::{Program, SourceTree};
use crate::scratch::Scratch;
use crate::signature::{self, Catalog, Evidence, Match, Signature};
use crate::trial::{Device, Mode, Observe, Outcome, Pins, Pool, PoolSpec, ProgramSpec, Report, Variation, Watch};
use crate::verdict::Seen;

use super::{Happening, JobError, Options};

/// Time limit where nothing else is said.
const TIME_LIMIT: Duration = Duration::from_secs(30 * 60);
/// Most trials where nothing else is said.
const RUN_LIMIT: u64 = 2000;
/// A run is long when it takes more than this share of the time limit.
const LONG: f64 = 0.1;
/// Most trials at once on one GPU: context creation is the limit.
const GPU_JOBS: usize = 4;

/// Who is told what happens.
pub(super) type Observer<'a> = &'a mut dyn FnMut(Happening<'_>);

/// One run of the main job.
pub(super) struct Session<'a> {
    pub(super) ground: Ground,
    pub(super) options: Options,
    pub(super) oracle: Oracle,
    pub(super) original: Arc<Program>,
    pub(super) begun: Instant,
    pub(super) observer: Observer<'a>,
    pub(super) scratch: Scratch,
    pub(super) harness: PathBuf,
    pub(super) secrets: Secrets,
    time_limit: Duration,
}

impl<'a> Session<'a> {
    /// Opens a session: harness files, an empty server, the ledger.
    ///
    /// # Errors
    /// When the scratch folder, the server or the ledger fail.
    pub(super) fn open(
        ground: Ground,
        options: Options,
        ledger: Ledger,
        begun: Instant,
        observer: Observer<'a>,
    ) -> Result<Self, JobError> {
        let scratch = Scratch::new().map_err(|source| JobError::File { path: std::env::temp_dir(), source })?;
        let harness = harness::install(&scratch.path().join("harness")).map_err(JobError::Harness)?;
        let catalog = harness.join("catalog.json");
        std::fs::write(&catalog, Catalog::embedded().json())
            .map_err(|source| JobError::File { path: catalog, source })?;
        let time_limit = options.limit_time.or(ground.case.limits.time).unwrap_or(TIME_LIMIT);
        let bounds = Bounds {
            deadline: begun + time_limit,
            runs: options.limit_runs.or(ground.case.limits.runs).unwrap_or(RUN_LIMIT),
            interrupted: Arc::clone(&options.interrupted),
        };
        let original = Arc::new(Program::parse(&SourceTree::default())?);
        let spec = pool_spec(&ground, &options, scratch.path(), &harness, Vec::new(), None);
        let pool = Pool::start(spec)?;
        let setting = Setting {
            name: "pinned".to_owned(),
            mode: Mode::Fork,
            pins: Pins::NONE,
            timeout: Duration::from_secs(60),
            variation: Variation::default(),
        };
        let oracle = Oracle::new(pool, ledger, Arc::clone(&original), setting, bounds, begun);
        let secrets = Secrets::new(options.private.clone());
        Ok(Self { ground, options, oracle, original, begun, observer, scratch, harness, secrets, time_limit })
    }

    /// Takes secrets out of the files of `source/`.
    ///
    /// # Errors
    /// When a file cannot be read or written.
    pub(super) fn clean_source(&mut self, out: &Path) -> Result<(), JobError> {
        let source = out.join("source");
        for file in self.original.tree().files.values() {
            self.secrets.learn(file.text());
        }
        let cleaned = self.secrets.clean_folder(&source, out, &|_| false);
        cleaned.map_err(|error| JobError::File { path: source, source: error })
    }

    /// Tells the user what is going on.
    pub(super) fn say(&mut self, phase: &'static str, text: &str) {
        (self.observer)(Happening::Phase { phase, text });
    }

    /// The pins that the case asks for.
    pub(super) fn wanted_pins(&self) -> Pins {
        let pins = self.ground.case.setting.pins;
        Pins { launch_blocking: pins.launch_blocking, seed: pins.seed.map(u64::from), num_workers: pins.num_workers }
    }

    /// A setting by its parts.
    pub(super) fn setting(&self, name: &str, mode: Mode, pins: Pins, timeout: Duration) -> Setting {
        Setting { name: name.to_owned(), mode, pins, timeout, variation: Variation::default() }
    }

    /// Runs the original once.
    ///
    /// # Errors
    /// When the oracle fails.
    pub(super) fn look(&mut self, setting: &Setting, observe: Observe) -> Result<Outcome, JobError> {
        self.watch(setting, observe, None)
    }

    /// Runs the original once and looks at calls before they are made.
    ///
    /// # Errors
    /// When the oracle fails.
    pub(super) fn watch(
        &mut self,
        setting: &Setting,
        observe: Observe,
        watch: Option<Watch>,
    ) -> Result<Outcome, JobError> {
        let look = Look {
            question: Question {
                candidate: Candidate::new(self.original.tree().clone()),
                size: (self.original.statements_count(), self.original.tokens_count()),
                phase: "preflight",
                pass: String::new(),
                what: String::new(),
            },
            setting: setting.clone(),
            observe,
            target: None,
            watch,
            in_place: false,
        };
        let (outcome, verdict) = self.oracle.observe(&look)?;
        (self.observer)(Happening::Trial {
            phase: "preflight",
            pass: "",
            what: "",
            verdict: &verdict,
            runs: self.oracle.runs(),
        });
        Ok(outcome)
    }

    /// The calls to look at in the recorded run: that which failed before, else all that can; on a real device only.
    pub(super) fn to_watch(&self, seen: &Seen) -> Option<Watch> {
        if self.ground.device == Device::Emulated {
            return None;
        }
        let failure = seen.failure.as_ref().filter(|_| seen.signature.operator.is_some());
        let site = failure.and_then(|failure| failure.frames.last()).and_then(|frame| {
            let statement = self.original.statement(self.original.statement_at(&frame.file, frame.line)?);
            Some((frame.file.clone(), statement.lines.0, statement.lines.1))
        });
        Some(Watch { operator: failure.map(|failure| failure.op.clone()), site })
    }

    /// Time for the first run: what the case says, else what is left of the limit.
    pub(super) fn first_timeout(&self) -> Duration {
        self.case_timeout().unwrap_or(self.time_limit)
    }

    /// Time for the whole run.
    pub(super) fn time_limit(&self) -> Duration {
        self.time_limit
    }

    /// Time for a trial as the user said it.
    pub(super) fn case_timeout(&self) -> Option<Duration> {
        self.options.timeout.or(self.ground.case.limits.timeout)
    }

    /// Time for a trial before a pinned run has been seen.
    pub(super) fn trial_timeout(&self, first_seconds: f64) -> Duration {
        self.case_timeout().unwrap_or_else(|| Duration::from_secs_f64((first_seconds * 10.0).max(30.0)))
    }

    /// The same for a fresh interpreter, which imports torch first.
    pub(super) fn cold_timeout(&self, trial: Duration) -> Duration {
        self.case_timeout().unwrap_or(trial + Duration::from_secs(120))
    }

    /// Whether a run of that many seconds leaves no room for a search.
    pub(super) fn is_long(&self, seconds: f64) -> bool {
        seconds > LONG * self.time_limit.as_secs_f64()
    }

    /// What to say of a run that did not end.
    pub(super) fn timed_out(&self, outcome: &Outcome) -> String {
        format!("no failure and no end after {:.0} s; a longer `timeout` may help", outcome.seconds)
    }

    /// Refuses another failure than the case expects.
    ///
    /// # Errors
    /// [`JobError::OtherFailure`] with both.
    pub(super) fn check_expected(&self, seen: &Seen) -> Result<(), JobError> {
        let expect = &self.ground.case.expect;
        let text = seen.signature.to_string();
        let signature = &seen.signature;
        let kernel = expect.kernel.as_ref().is_some_and(|wanted| signature.function.as_ref() != Some(wanted));
        let assertion = expect.assertion.as_ref().is_some_and(|wanted| !condition_is(wanted, signature));
        if kernel || assertion {
            let expected = [expect.kernel.clone(), expect.assertion.clone()].into_iter().flatten().collect::<Vec<_>>();
            return Err(JobError::OtherFailure { expected: expected.join(": "), seen: text });
        }
        Ok(())
    }

    /// The level at which failures are compared.
    pub(super) fn level(&self) -> Match {
        self.options.level.or(self.ground.case.expect.level).unwrap_or(Match::Normal)
    }

    /// Takes the project files that the first run imported as those that may be cut.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub(super) fn adopt_inventory(&mut self, report: &Report) -> Result<(), JobError> {
        let root = &self.ground.invocation.project;
        let case = &self.ground.case;
        let absolute = |path: &str| root.join(path);
        let mut files: BTreeSet<String> = report.imported.iter().cloned().collect();
        if let CaseProgram::Script(script) = &self.ground.invocation.program {
            let script = root.join(&self.ground.invocation.workdir).join(script);
            if let Some(inside) = relative(root, &script) {
                files.insert(inside);
            }
        }
        files.retain(|path| {
            path.ends_with(".py")
                && absolute(path).is_file()
                && !case.keep.matches(&absolute(path))
                && case.sources.as_ref().is_none_or(|sources| sources.matches(&absolute(path)))
        });
        let files: Vec<String> = files.into_iter().collect();
        self.take_sources(&files)
    }

    /// Takes these files as those that may be cut.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub(super) fn take_sources(&mut self, files: &[String]) -> Result<(), JobError> {
        let tree = SourceTree::read(&self.ground.invocation.project, files)?;
        self.original = Arc::new(Program::parse(&tree)?);
        self.oracle.set_original(Arc::clone(&self.original));
        Ok(())
    }

    /// Refuses to go on with a ledger whose preflight ran other files than those that are there now.
    ///
    /// # Errors
    /// [`JobError::Changed`] with the files.
    pub(super) fn check_unchanged(&self) -> Result<(), JobError> {
        let now = Candidate::new(self.original.tree().clone()).id;
        let mut ran = self.oracle.ledger().trials().filter(|trial| trial.phase == "preflight");
        if ran.any(|trial| trial.candidate == now) {
            return Ok(());
        }
        Err(JobError::Changed { out: self.options.out.clone(), files: self.sources().join(", ") })
    }

    /// The files that may be cut.
    pub(super) fn sources(&self) -> Vec<String> {
        self.original.paths().to_vec()
    }

    /// Replaces the empty server by one that has imported what the first run did.
    ///
    /// # Errors
    /// When the server does not start.
    pub(super) fn warm_up(&mut self, modules: &[String]) -> Result<(), JobError> {
        let own = self.project_modules();
        let preload: Vec<String> = modules
            .iter()
            .filter(|name| {
                let top = name.split('.').next().unwrap_or_default();
                !own.contains(top) && !top.starts_with("_reduce") && top != "__main__" && top != "sitecustomize"
            })
            .cloned()
            .collect();
        let hash_seed = self.wanted_pins().seed;
        let spec = pool_spec(&self.ground, &self.options, self.scratch.path(), &self.harness, preload, hash_seed);
        self.oracle.replace_pool(Pool::start(spec)?);
        Ok(())
    }

    /// Top-level names of the project's own modules.
    fn project_modules(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for path in self.original.paths() {
            for part in path.split('/') {
                names.insert(part.strip_suffix(".py").unwrap_or(part).to_owned());
            }
        }
        names
    }

    /// Whether Ctrl-C was pressed.
    pub(super) fn is_interrupted(&self) -> bool {
        self.options.interrupted.load(Ordering::Relaxed)
    }

    /// Trials at once.
    pub(super) fn jobs(&self) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let asked = self.options.jobs.or(self.ground.case.jobs).map(|jobs| jobs as usize);
        asked.unwrap_or(match self.ground.device {
            Device::Cuda => cores.min(GPU_JOBS),
            Device::Emulated => cores,
        })
    }

    /// A server without imports over another folder: the final files are confirmed where they lie.
    ///
    /// # Errors
    /// When the server does not start.
    pub(super) fn cold_pool(&self, project: &Path, workdir: &str, program: ProgramSpec) -> Result<Pool, JobError> {
        let mut spec = pool_spec(&self.ground, &self.options, self.scratch.path(), &self.harness, Vec::new(), None);
        spec.project = project.to_owned();
        spec.workdir = workdir.to_owned();
        spec.program = program;
        spec.scratch = self.scratch.path().join("cold");
        std::fs::create_dir_all(&spec.scratch)
            .map_err(|source| JobError::File { path: spec.scratch.clone(), source })?;
        Ok(Pool::start(spec)?)
    }
}

/// The program of an invocation as the harness takes it.
pub(super) fn program_spec(invocation: &Invocation) -> ProgramSpec {
    let (kind, target) = match &invocation.program {
        CaseProgram::Script(path) => ("script", path),
        CaseProgram::Module(name) => ("module", name),
    };
    ProgramSpec { kind: kind.to_owned(), target: target.clone(), argv: invocation.argv.clone() }
}

fn pool_spec(
    ground: &Ground,
    options: &Options,
    scratch: &Path,
    harness: &Path,
    preload: Vec<String>,
    hash_seed: Option<u64>,
) -> PoolSpec {
    let Ground { case, invocation, python, device, .. } = ground;
    let mut env: Vec<(String, String)> = case.setting.env.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
    env.extend(invocation.env.iter().map(|(k, v)| (k.clone(), v.clone())));
    // Model hubs stay offline: a pin that keeps a trial from waiting for a network that it does not have.
    if !case.sandbox.network {
        for name in ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE"] {
            if !env.iter().any(|(key, _)| key == name) {
                env.push((name.to_owned(), "1".to_owned()));
            }
        }
    }
    PoolSpec {
        python: python.executable.clone(),
        options: invocation.options.clone(),
        unset: invocation.unset.iter().cloned().collect(),
        harness: harness.to_owned(),
        project: invocation.project.clone(),
        workdir: invocation.workdir.clone(),
        program: program_spec(invocation),
        env,
        hash_seed,
        preload,
        device: *device,
        network: case.sandbox.network,
        write: case.sandbox.write.clone(),
        sandbox: options.sandbox,
        memory: case.limits.memory,
        scratch: scratch.to_owned(),
        catalog: harness.join("catalog.json"),
    }
}

/// Whether a condition as somebody wrote it is that of a failure: both are brought to the same form.
fn condition_is(wanted: &str, signature: &Signature) -> bool {
    let file = signature.file.as_deref().unwrap_or("unknown");
    let function = signature.function.as_deref().unwrap_or("operator()");
    let line = format!("{file}:1: {function}: block: [0,0,0], thread: [0,0,0] Assertion `{wanted}` failed.");
    let parsed = signature::parse(&Evidence { stderr: &line, ..Evidence::default() });
    let verbatim = signature.condition.as_deref() == Some(wanted) || signature.message.as_deref() == Some(wanted);
    verbatim || parsed.is_some_and(|parsed| parsed.condition == signature.condition)
}

/// A path relative to a root, with `/`; `None` outside it.
pub(super) fn relative(root: &Path, path: &Path) -> Option<String> {
    let canonical = path.canonicalize().ok()?;
    let root = root.canonicalize().ok()?;
    let inside = canonical.strip_prefix(root).ok()?;
    Some(inside.to_string_lossy().into_owned())
}

//! Owns the order in which evidence is believed: the first assertion line, then a sanitizer's record, then exceptions.
//!
//! Invariant: an assertion on standard error wins over any exception; the number and order of the lines of one failure do not
//! change the result.
//! Must not compare signatures.

use std::sync::LazyLock;

use regex::{Regex, bytes};
use serde::{Deserialize, Serialize};

use super::assertion::{self, Assertion};
use super::catalog::Class;
use super::entries::Known;
use super::exception::{self, Frame, Raised};
use super::{CUDA_ERROR, Catalog, Evidence, Family, Signature, UNKNOWN_ASSERT, UNNAMED_ASSERT, condition};

static TRIGGERED: LazyLock<bytes::Regex> = LazyLock::new(|| {
    bytes::Regex::new(r"device-side assert triggered|cudaErrorAssert|CUDA_ERROR_ASSERT|hipErrorAssert")
        .expect("the pattern is fixed")
});
/// Words without which no text of the catalogue can match: a cheap first look at a long output.
static ALARM: LazyLock<bytes::Regex> = LazyLock::new(|| {
    bytes::Regex::new(
        r"memory access was encountered|Address|ADDRESS|misaligned|illegal instruction|IllegalInstruction|ILLEGAL_INSTRUCTION|launch failure|LaunchFailure|LAUNCH_FAILED|HSA_STATUS|Memory access fault|=========|_STATUS_|cuFFT|cublas runtime|out of memory|OUT_OF_MEMORY|MemoryAllocation|CUDA|NVIDIA|kernel image|DataLoader|Pin memory|bus error|Watchdog|NCCL|nccl",
    )
    .expect("the pattern is fixed")
});
static SANITIZER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?m)^={9} (?:(Invalid __(?:global|shared|local)__ (?:read|write|atomic))|(Uninitialized __global__ memory read)",
        r"|(Barrier error detected)|(?:[A-Za-z]+: )?(Race reported between))([^\n]*)(?:\n={9}\s+at (?:0x[0-9a-f]+ in )?([^\n]*))?"
    ))
    .expect("the pattern is fixed")
});
static CUDA_TEXT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?:CUDA|HIP)(?: driver| runtime)? error(?: \([0-9]+\))?\s?: ([^\n]+)").expect("the pattern is fixed")
});
static TRITON_TEXT: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"Triton Error \[[A-Z]+\]: ([^\n]+)").expect("the pattern is fixed"));

/// Characters that are kept of what CUDA or Triton says.
const MOST_SAID: usize = 200;

/// A signature and what it was read from.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The identity of the failure.
    pub signature: Signature,
    /// The assertion line that decided, as printed.
    pub assertion: Option<Assertion>,
    /// The exception in one line.
    pub exception: Option<String>,
    /// Whether the place of the exception can be believed.
    pub stack: Stack,
    /// The last traceback that was printed, outermost first.
    pub traceback: Vec<Frame>,
}

/// Whether the place of an exception can be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stack {
    /// CUDA said that it may be wrong.
    Asynchronous,
    /// CUDA's hints are there without that one: launches were blocking.
    Blocking,
    /// Nothing tells.
    Unknown,
}

/// The evidence around an exception, from the outcome or from the log.
struct Context<'a> {
    kind: String,
    /// The whole message where it is known.
    message: String,
    printed: Option<Raised>,
    asynchronous: bool,
    witness: Option<&'a str>,
}

/// Reads the failure that a run shows.
pub fn read(evidence: &Evidence<'_>) -> Option<Reading> {
    let printed = exception::last(evidence.stderr);
    let (kind, message) = match (evidence.exception_type, evidence.exception_message, &printed) {
        (None, None, Some(raised)) => (raised.kind.clone(), raised.message.clone()),
        (kind, message, _) => (kind.unwrap_or_default().to_owned(), message.unwrap_or_default().to_owned()),
    };
    let asynchronous = match evidence.exception_message {
        Some(message) => exception::says_asynchronous(message),
        None => printed.as_ref().is_some_and(Raised::is_asynchronous),
    };
    let context = Context { kind, message, printed, asynchronous, witness: evidence.operator };
    let found = assertion::first(evidence.stderr.as_bytes()).or_else(|| assertion::first(evidence.stdout.as_bytes()));
    let mut signature = match &found {
        Some(assertion) => of_assertion(assertion, &context),
        None => of_texts(evidence, &context)?,
    };
    let hints = context.printed.as_ref().is_some_and(Raised::has_hints);
    let stack = match (asynchronous, hints) {
        (true, _) => Stack::Asynchronous,
        (false, true) => Stack::Blocking,
        (false, false) => Stack::Unknown,
    };
    let traceback = context.printed.as_ref().map(|raised| raised.frames.clone()).unwrap_or_default();
    let exception = exception::one_line(&context.kind, &context.message);
    let exception = (!exception.is_empty()).then_some(exception);
    signature.exception.clone_from(&exception);
    Some(Reading { signature, assertion: found, exception, stack, traceback })
}

fn blank(family: Family, class: &str) -> Signature {
    Signature {
        family,
        class: class.to_owned(),
        operator: None,
        file: None,
        function: None,
        condition: None,
        message: None,
        exception: None,
    }
}

fn of_assertion(assertion: &Assertion, context: &Context<'_>) -> Signature {
    let catalog = Catalog::embedded();
    let tidied = assertion.expression.as_deref().map(condition::tidy);
    let condition = tidied.as_ref().map(|tidied| tidied.condition.as_str());
    let message = tidied.as_ref().and_then(|tidied| tidied.message.as_deref());
    if let Some(class) = condition.and_then(|condition| catalog.class_of_condition(condition)) {
        return Signature {
            file: Some("<generated>".to_owned()),
            condition: condition.map(str::to_owned),
            operator: context.operator(|_| true),
            ..blank(class.family, &class.class)
        };
    }
    let known = catalog.known(&assertion.file, assertion.function.as_deref(), condition, message);
    let mut allowed: Vec<&str> = known.iter().flat_map(|known| &known.entry.operators).map(String::as_str).collect();
    allowed.sort_unstable();
    allowed.dedup();
    // An innocent operator may have fired the same kernel with another text in an older release.
    let current: Vec<&str> = known
        .iter()
        .filter(|known| known.is_current())
        .flat_map(|known| &known.entry.operators)
        .map(String::as_str)
        .collect();
    let believed = if current.is_empty() { &allowed } else { &current };
    let is_allowed = |name: &str| catalog.operators(name).iter().any(|name| believed.contains(name));
    let operator = context.operator(is_allowed).or_else(|| context.operator_of_traceback(&allowed));
    let Some(best) = choose(&known, operator.as_deref()) else {
        return Signature {
            file: Some(assertion.file.clone()),
            function: assertion.function.clone(),
            condition: condition.map(str::to_owned),
            message: message.map(str::to_owned),
            operator,
            ..blank(Family::DeviceAssert, UNKNOWN_ASSERT)
        };
    };
    // Which kernel fires depends on shape and alignment: the operator decides the class where it can.
    Signature {
        file: Some(best.file.to_owned()),
        function: best.function.clone(),
        condition: condition.and(best.condition.clone()),
        message: message.map(str::to_owned),
        operator,
        ..blank(Family::DeviceAssert, &best.class.class)
    }
}

fn choose<'k, 'c>(known: &'k [Known<'c>], operator: Option<&str>) -> Option<&'k Known<'c>> {
    let catalog = Catalog::embedded();
    let names = operator.map(|name| catalog.operators(name)).unwrap_or_default();
    let fires = |known: &&Known<'_>| known.entry.operators.iter().any(|name| names.contains(&name.as_str()));
    let fails = |known: &&Known<'_>| known.class.operators.iter().any(|listed| names.contains(&listed.name.as_str()));
    known.iter().find(fires).or_else(|| known.iter().find(fails)).or(known.first())
}

fn of_texts(evidence: &Evidence<'_>, context: &Context<'_>) -> Option<Signature> {
    let catalog = Catalog::embedded();
    if let Some(record) = sanitizer(evidence.stderr).or_else(|| sanitizer(evidence.stdout)) {
        return Some(record);
    }
    // Words such as the name of a CUDA error stand in the lines after the message too.
    let raised = match (&context.printed, evidence.exception_message) {
        (Some(raised), None) => format!("{}\n{}", context.message, raised.rest),
        _ => context.message.clone(),
    };
    let raised = raised.as_str();
    let is_dead = |text: &str| TRIGGERED.is_match(text.as_bytes());
    if is_dead(raised) || (is_dead(evidence.stderr) && !is_memory_fault(catalog, &context.message)) {
        return Some(unnamed(context));
    }
    let mut found = class_of(catalog, raised, |family| family != Family::DeviceAssert);
    let messenger = found.as_ref().is_none_or(|(class, _)| class.family == Family::Library);
    if messenger && ALARM.is_match(evidence.stderr.as_bytes()) {
        // A fault ends every later call: it counts wherever it is said. The rest counts only where nothing was raised.
        let nothing = context.kind.is_empty() && context.message.is_empty();
        let wanted = |family| match family {
            Family::MemoryFault | Family::Sanitizer => true,
            Family::DeviceAssert => false,
            _ => nothing,
        };
        found = class_of(catalog, evidence.stderr, wanted).or(found);
    }
    if let Some((class, detail)) = found {
        return Some(Signature {
            condition: detail,
            operator: context.operator(|_| false),
            ..blank(class.family, &class.class)
        });
    }
    if let Some(text) = CUDA_TEXT.captures(&context.message).or_else(|| TRITON_TEXT.captures(&context.message)) {
        let said: String = text.get(1).map_or("", |part| part.as_str()).chars().take(MOST_SAID).collect();
        return Some(Signature {
            condition: Some(exception::one_line("", said.trim())),
            operator: context.operator(|_| false),
            ..blank(Family::Cuda, CUDA_ERROR)
        });
    }
    host_check(catalog, context)
}

fn class_of<'c>(
    catalog: &'c Catalog,
    text: &str,
    wanted: impl Fn(Family) -> bool,
) -> Option<(&'c Class, Option<String>)> {
    catalog.class_of_text(text, wanted)
}

fn is_memory_fault(catalog: &Catalog, message: &str) -> bool {
    class_of(catalog, message, |family| family == Family::MemoryFault).is_some()
}

/// An assertion whose line is lost: only an operator that fails in one way names its class.
fn unnamed(context: &Context<'_>) -> Signature {
    let operator = context.operator(|_| false);
    let class = operator.as_deref().and_then(|name| Catalog::embedded().only_class_of(name));
    Signature { operator, ..blank(Family::DeviceAssert, class.map_or(UNNAMED_ASSERT, |class| &class.class)) }
}

/// A plain exception whose text says what a kernel would have asserted.
fn host_check(catalog: &Catalog, context: &Context<'_>) -> Option<Signature> {
    let read = catalog.class_of_cpu_text(context.witness, &context.message)?;
    let class = catalog.entry(&read.class)?;
    let listed: Vec<&str> = class.operators.iter().map(|operator| operator.name.as_str()).collect();
    let is_listed = |name: &str| catalog.operators(name).iter().any(|name| listed.contains(name));
    let operator = context
        .witness
        .filter(|name| is_listed(name))
        .map(|name| catalog.canonical(name))
        .or_else(|| context.call_in_traceback(&listed));
    Some(Signature { operator, ..blank(Family::HostCheck, &class.class) })
}

/// The first finding of a sanitizer; an assertion that it saw is printed by the program as well.
fn sanitizer(output: &str) -> Option<Signature> {
    if !output.contains("========= ") {
        return None;
    }
    let found = SANITIZER.captures(output)?;
    let (family, class) = match (found.get(1), found.get(2), found.get(3)) {
        (Some(_), ..) => (Family::MemoryFault, "illegal_access"),
        (_, Some(_), _) => (Family::Sanitizer, "uninitialized_read"),
        (_, _, Some(_)) => (Family::Sanitizer, "barrier_error"),
        _ => (Family::Sanitizer, "race"),
    };
    let rest = found.get(5).map_or("", |part| part.as_str());
    let place = match found.get(6) {
        Some(place) => place.as_str(),
        // A race names its accesses in the line itself.
        None => rest.split(" access at ").nth(1).unwrap_or_default(),
    };
    let kernel = place.split("+0x").next().unwrap_or(place);
    Some(Signature { function: condition::function_name(kernel), ..blank(family, class) })
}

impl Context<'_> {
    /// The witness's operator, where it can be believed: launches were blocking, or the assertion allows it.
    fn operator(&self, is_allowed: impl Fn(&str) -> bool) -> Option<String> {
        let witness = self.witness.filter(|name| !name.trim().is_empty())?;
        (!self.asynchronous || is_allowed(witness)).then(|| Catalog::embedded().canonical(witness))
    }

    /// The operator that the traceback of a blocking launch shows.
    fn operator_of_traceback(&self, allowed: &[&str]) -> Option<String> {
        let raised = self.printed.as_ref()?;
        if self.witness.is_some() || self.asynchronous || !raised.has_hints() {
            return None;
        }
        self.call_in_traceback(allowed)
    }

    /// The one operator among `allowed` that the last traceback calls.
    fn call_in_traceback(&self, allowed: &[&str]) -> Option<String> {
        let raised = self.printed.as_ref()?;
        let catalog = Catalog::embedded();
        let public = raised.frames.iter().find_map(|frame| {
            let file = frame.file.replace('\\', "/");
            let name = format!("torch.nn.functional.{}", frame.function);
            (file.ends_with("torch/nn/functional.py") && allowed.contains(&name.as_str())).then_some(name)
        });
        if public.is_some() {
            return public;
        }
        let code = raised.frames.last()?.code.as_str();
        let mut called = allowed.iter().filter(|name| {
            let base = name.rsplit('.').next().unwrap_or(name).trim_end_matches('_');
            calls(code, base)
        });
        let first = called.next()?;
        called.next().is_none().then(|| catalog.canonical(first))
    }
}

/// Whether code calls a function of that name, in its in-place form or not.
fn calls(code: &str, name: &str) -> bool {
    code.match_indices(name).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let after = code[at + name.len()..].trim_start_matches('_');
        !name.is_empty() && before.is_none_or(|c| !(c.is_alphanumeric() || c == '_')) && after.starts_with('(')
    })
}

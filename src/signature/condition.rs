//! Owns the text of conditions and kernel names: tidied for people, reduced to a normal form for comparison.
//!
//! Invariant: two wordings of one check have one normal form (`a >= 0` and `0 <= a`, spaces, order of conjuncts), and the
//! normal form of a normal form is itself.
//! Must not know the catalogue.

use std::sync::LazyLock;

use regex::Regex;

static TEMPORARY: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\btmp[0-9]+\b").expect("the pattern is fixed"));

/// What generated code says about an index; the bound and the temporary change with the graph.
const GENERATED_BOUND: &str = "index out of bounds: 0 <= index < bound";

/// A condition as printed, split into the condition itself and the message that follows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tidied {
    /// The condition without message, in the words of the source.
    pub(super) condition: String,
    /// The text of `&& "message"`.
    pub(super) message: Option<String>,
}

/// Tidies a printed expression: unescaped, single spaces, message apart, names of temporaries gone.
pub(super) fn tidy(printed: &str) -> Tidied {
    let text = printed.replace("\\\"", "\"");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if is_generated_bound(&text) {
        return Tidied { condition: GENERATED_BOUND.to_owned(), message: None };
    }
    let mut parts = conjuncts(&text);
    let mut message = None;
    if parts.len() > 1
        && let Some(last) = parts.last().copied()
        && let Some(inner) = last.strip_prefix('"')
    {
        message = Some(inner.strip_suffix('"').unwrap_or(inner).to_owned());
        parts.pop();
    }
    let condition = TEMPORARY.replace_all(&parts.join(" && "), "tmp").into_owned();
    Tidied { condition, message }
}

/// The form in which conditions are compared.
pub(super) fn normal_form(condition: &str) -> String {
    let tidied = tidy(condition).condition;
    let mut parts: Vec<String> = conjuncts(&tidied).into_iter().map(commuted).collect();
    parts.sort();
    parts.dedup();
    parts.join("&&")
}

/// The bare name of a kernel function; `None` where the log names none.
pub(super) fn function_name(printed: &str) -> Option<String> {
    let text = printed.trim().trim_end_matches(':').trim();
    if text.is_empty() || text == "unknown" {
        return None;
    }
    let text = text.split(" [with ").next().unwrap_or(text);
    if text.contains("operator()") || text.contains("lambda") {
        return Some("operator()".to_owned());
    }
    let text = text.replace("(anonymous namespace)", "anonymous").replace("<unnamed>", "anonymous");
    let mut plain = String::new();
    let mut depth = 0_usize;
    for c in text.chars() {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ if depth > 0 => {}
            '(' => break,
            _ => plain.push(c),
        }
    }
    let name = plain.split_whitespace().last().unwrap_or_default();
    let name = name.rsplit("::").next().unwrap_or(name);
    let name = name.trim_matches(|c: char| !(c.is_alphanumeric() || c == '_'));
    (!name.is_empty()).then(|| name.to_owned())
}

fn is_generated_bound(text: &str) -> bool {
    text.strip_prefix("index out of bounds: ").is_some_and(|rest| rest.contains(" < ") || rest.contains(" <= "))
}

/// Splits at `&&` outside of brackets and quotes.
fn conjuncts(text: &str) -> Vec<&str> {
    let bytes = text.as_bytes();
    let mut parts = Vec::new();
    let (mut depth, mut quoted, mut from, mut at) = (0_i32, false, 0, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if quoted => at += 1,
            b'"' => quoted = !quoted,
            b'(' | b'[' | b'{' if !quoted => depth += 1,
            b')' | b']' | b'}' if !quoted => depth -= 1,
            b'&' if !quoted && depth == 0 && bytes.get(at + 1) == Some(&b'&') => {
                parts.push(text[from..at].trim());
                at += 1;
                from = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    parts.push(text.get(from..).unwrap_or_default().trim());
    parts
}

/// One comparison with `<` or `<=`, without spaces; anything else only loses its spaces.
fn commuted(part: &str) -> String {
    let text: String = part.chars().filter(|c| !c.is_whitespace()).collect();
    let bytes = text.as_bytes();
    let mut found: Option<(usize, usize)> = None;
    let (mut depth, mut at) = (0_i32, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            // An arrow or a shift is no comparison.
            b'-' if bytes.get(at + 1) == Some(&b'>') => at += 1,
            b'<' | b'>' if depth == 0 => {
                if found.is_some() {
                    return text;
                }
                let width = if bytes.get(at + 1) == Some(&b'=') { 2 } else { 1 };
                found = Some((at, width));
                at += width - 1;
            }
            _ => {}
        }
        at += 1;
    }
    let Some((at, width)) = found else {
        return text;
    };
    if bytes[at] == b'<' {
        return text;
    }
    let sign = if width == 2 { "<=" } else { "<" };
    format!("{}{sign}{}", &text[at + width..], &text[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_wordings_of_the_index_kernel_are_one() {
        let old = normal_form("index >= -sizes[i] && index < sizes[i] && \"index out of bounds\"");
        let new = normal_form("-sizes[i] <= index && index < sizes[i] && \"index out of bounds\"");
        assert_eq!(old, new);
        assert_eq!(normal_form("ind >=0 && ind < n"), normal_form("ind < n && 0 <= ind"));
        assert_ne!(normal_form("t > 0"), normal_form("t >= 0"));
        assert_ne!(normal_form("t < n_classes"), normal_form("t >= 0 && t < n_classes"));
    }

    #[test]
    fn the_message_is_apart_and_macro_arguments_are_not_a_message() {
        let tidied = tidy("lambda >= 0 && \\\"invalid Poisson rate, expected rate to be non-negative\\\"");
        assert_eq!(tidied.condition, "lambda >= 0");
        assert_eq!(tidied.message.as_deref(), Some("invalid Poisson rate, expected rate to be non-negative"));
        assert_eq!(tidy("cond && message"), Tidied { condition: "cond && message".to_owned(), message: None });
        assert_eq!(tidy(""), Tidied { condition: String::new(), message: None });
        let text = "probability tensor contains either `inf`, `nan` or element < 0";
        assert_eq!(tidy(text).condition, text);
    }

    #[test]
    fn generated_bounds_are_one_whatever_the_temporary_and_the_bound() {
        let nested = tidy("index out of bounds: 0 <= tl.broadcast_to(tmp10, [YBLOCK, XBLOCK]) < 64");
        assert_eq!(nested, tidy("index out of bounds: 0 <= tmp4 < 2"));
    }

    #[test]
    fn the_normal_form_is_a_fixed_point_and_survives_any_text() {
        for text in
            ["t >= 0 && t < n", "a > b", "a->b > c", "f<T>(x) > 0", "((((", "\"", "&&", "a && && \"x", "é >= ü", "->"]
        {
            let once = normal_form(text);
            assert_eq!(normal_form(&once), once, "{text}");
        }
    }

    #[test]
    fn kernel_names_lose_signatures_templates_and_namespaces() {
        let old =
            "void indexSelectLargeIndex(TensorInfo<T, IndexType>, long) [with T = float, IndexType = unsigned int]";
        assert_eq!(function_name(old).as_deref(), Some("indexSelectLargeIndex"));
        let unnamed = "void at::native::<unnamed>::indexing_kernel<float, 4>(float *)";
        assert_eq!(function_name(unnamed).as_deref(), Some("indexing_kernel"));
        let hidden = "void at::native::(anonymous namespace)::f<int>(int)";
        assert_eq!(function_name(hidden).as_deref(), Some("f"));
        assert_eq!(function_name("lambda [](int)->auto::operator()(int)->auto").as_deref(), Some("operator()"));
        assert_eq!(function_name("operator():").as_deref(), Some("operator()"));
        assert_eq!(function_name("unknown"), None);
        assert_eq!(function_name(" "), None);
    }
}

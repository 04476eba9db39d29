//! Owns the names of operators: which spellings are one operator in other clothes.
//!
//! Invariant: a canonical name stands for itself, and a name that is not known only for its own spellings.
//! Must not know failures.

use super::catalog::Catalog;

impl Catalog {
    /// Canonical names that a spelling may stand for: several for an internal name that public ones share, none if unknown.
    pub fn operators(&self, spelling: &str) -> Vec<&str> {
        let spelling = public_name(spelling);
        if let Some((name, _)) = self.operators.get_key_value(&spelling) {
            return vec![name];
        }
        // A spelling that is listed in full says more than its last part.
        let listed: Vec<&str> = self
            .operators
            .iter()
            .filter(|(_, others)| others.contains(&spelling))
            .map(|(name, _)| name.as_str())
            .collect();
        if !listed.is_empty() {
            return listed;
        }
        if !["torch.", "aten."]
            .iter()
            .any(|start| spelling.starts_with(start))
        {
            return Vec::new();
        }
        self.spellings
            .get(&base(&spelling))
            .into_iter()
            .flatten()
            .map(String::as_str)
            .collect()
    }

    /// One name for all spellings of an operator; a spelling that is not known, or not unique, is only cleaned.
    pub fn canonical(&self, spelling: &str) -> String {
        match self.operators(spelling).as_slice() {
            [one] => (*one).to_owned(),
            _ => public_name(spelling),
        }
    }

    /// Whether two names are the same operator in other clothes.
    pub fn same_operator(&self, one: &str, other: &str) -> bool {
        let (first, second) = (self.operators(one), self.operators(other));
        if first.is_empty() && second.is_empty() {
            return base(&public_name(one)) == base(&public_name(other));
        }
        first.iter().any(|name| second.contains(name))
    }
}

/// A name as users write it: internal prefixes and overloads gone.
fn public_name(spelling: &str) -> String {
    let text = spelling.trim().replace("::", ".");
    let text = text
        .strip_prefix("torch.ops.aten.")
        .map(|rest| format!("aten.{rest}"))
        .unwrap_or(text);
    let text = [
        "torch._C._VariableFunctions.",
        "_VariableFunctionsClass.",
        "torch._VariableFunctions.",
    ]
    .iter()
    .find_map(|start| text.strip_prefix(start))
    .map(|rest| format!("torch.{rest}"))
    .unwrap_or(text);
    let text = [
        "torch._C.TensorBase.",
        "torch._C._TensorBase.",
        "_TensorBase.",
        "TensorBase.",
        "Tensor.",
    ]
    .iter()
    .find_map(|start| text.strip_prefix(start))
    .map(|rest| format!("torch.Tensor.{rest}"))
    .unwrap_or(text);
    match text.strip_prefix("aten.") {
        Some(rest) => format!("aten.{}", rest.split('.').next().unwrap_or(rest)),
        None => text,
    }
}

/// The last part of a name without the mark of the in-place form.
pub(super) fn base(spelling: &str) -> String {
    let last = spelling.rsplit(['.', ':']).next().unwrap_or(spelling);
    if last.ends_with("__") {
        return last.to_owned();
    }
    let last = last.strip_suffix("_out").unwrap_or(last);
    last.strip_suffix('_').unwrap_or(last).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_operator_are_one() {
        let catalog = Catalog::embedded();
        for (one, other) in [
            ("torch.gather", "torch.Tensor.gather"),
            ("torch.Tensor.index_add", "torch.index_add"),
            ("torch.Tensor.index_add_", "aten::index_add_"),
            ("torch.nn.Embedding", "torch.embedding"),
            ("torch.nn.functional.embedding", "aten.embedding.default"),
            ("torch.Tensor.__setitem__", "torch.Tensor.index_put_"),
            ("torch.Tensor.__getitem__", "torch.ops.aten.index.Tensor"),
            (
                "_VariableFunctionsClass._assert_async",
                "torch._assert_async",
            ),
            ("torch.bernoulli", "torch.Tensor.bernoulli_"),
            ("torch.autograd.backward", "torch.Tensor.backward"),
            (
                "torch.nn.functional.cross_entropy",
                "aten.nll_loss_forward.default",
            ),
            ("mine.op", "mine.op_"),
        ] {
            assert!(catalog.same_operator(one, other), "{one} {other}");
        }
        for (one, other) in [
            (
                "torch.nn.functional.cross_entropy",
                "torch.nn.functional.nll_loss",
            ),
            ("torch.Tensor.__getitem__", "torch.Tensor.__setitem__"),
            (
                "torch.nn.functional.embedding",
                "torch.nn.functional.embedding_bag",
            ),
            ("torch.Tensor.scatter_", "torch.Tensor.scatter_add_"),
            ("torch.nn.functional.cross_entropy", "torch.Tensor.backward"),
            ("mine.gather", "torch.gather"),
        ] {
            assert!(!catalog.same_operator(one, other), "{one} {other}");
        }
    }
}

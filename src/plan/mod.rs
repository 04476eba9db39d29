//! stub
use std::path::Path;
use crate::passes::{self, Facts, Proposal};
use crate::program::Program;
#[derive(Debug, Default, Clone)]
pub struct Stage { pub name: String, pub passes: Vec<&'static str>, pub max_runs: Option<u32> }
#[derive(Debug, Default, Clone)]
pub struct Plan { stages: Vec<Stage> }
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct PlanError { pub message: String, pub hints: Vec<String> }
impl Stage { pub fn proposals(&self, program: &Program, facts: &Facts) -> Vec<Proposal> {
    self.passes.iter().filter_map(|n| passes::by_name(n)).flat_map(|p| p.proposals(program, facts)).collect() } }
impl Plan {
  pub fn stages(&self) -> &[Stage] { &self.stages }
  pub fn load(_: &str, _: &Path) -> Result<Plan, PlanError> {
    let st = |n: &str, p: &[&'static str], m| Stage { name: n.into(), passes: p.to_vec(), max_runs: m };
    Ok(Plan { stages: vec![
      st("certain", &["arms","annotations","imports","parameters"], Some(8)),
      st("hoist", &["hoist"], Some(8)), st("decorators", &["decorators","bases"], Some(5)),
      st("arguments", &["arguments"], Some(10)), st("rest", &["displays","targets","expressions"], Some(10)),
      st("imports", &["imports","parameters"], Some(4)) ] })
  }
}
pub fn built_in() -> Vec<(&'static str, &'static str)> { vec![] }
pub fn text(_: &str) -> Option<&'static str> { None }

//! A summary as text for a terminal, at most about 110 columns wide.

use std::fmt::Write;

use crate::console::counted;

use super::summary::{Attempts, Counts, Loss, Summary};

/// Returns the funnel, what the tasks rest on, and one block of numbers for each policy.
pub fn text(summary: &Summary) -> String {
    let mut out = String::new();
    line(&mut out, &format!("dataset {}\n", summary.dataset));
    funnel(&mut out, summary);
    if summary.count("tasks") > 0 || !summary.quarantined.is_empty() {
        evidence(&mut out, summary);
    }
    if !summary.attempts.is_empty() {
        labels(&mut out, &summary.attempts);
        attempts(&mut out, &summary.attempts);
    }
    out
}

fn funnel(out: &mut String, summary: &Summary) {
    for step in &summary.funnel {
        let n_lost: usize = step.lost.iter().map(|loss| loss.count).sum();
        let mut row = format!("  {:<14}{:>7}", step.name, step.count);
        if n_lost > 0 {
            let minus = format!("-{n_lost}");
            write!(row, "{minus:>9}  ").expect("writing to a string cannot fail");
            wrap(&mut row, &listed(&step.lost), 32, 110);
        }
        line(out, &row);
    }
}

fn evidence(out: &mut String, summary: &Summary) {
    let shared = format!("{} for {}", summary.n_environments, counted(summary.count("environments"), "candidate"));
    let rungs = if summary.rungs.is_empty() { String::new() } else { format!("; by {}", pairs(&summary.rungs)) };
    line(out, &format!("\n  environments  {shared}{rungs}"));
    let (n_fail, n_pass) = (summary.n_fail_to_pass, summary.n_pass_to_pass);
    line(
        out,
        &format!("  evidence      {}; {n_fail} fail-to-pass, {n_pass} pass-to-pass tests", pairs(&summary.evidence)),
    );
    let faults = summary.strength;
    if faults.n_mutants > 0 {
        let (killed, all, median) = (faults.n_killed, faults.n_mutants, faults.median_percent);
        let tangled = format!("{} with unneeded hunks", counted(faults.n_tangled, "task"));
        line(
            out,
            &format!("  strength      {killed} of {all} mutants killed, {median} % of the median task's; {tangled}"),
        );
    }
    if !summary.quarantined.is_empty() {
        line(out, &format!("  quarantined   {}", pairs(&summary.quarantined)));
    }
}

/// The table of labels: one row for each that occurs, one column for each policy.
fn labels(out: &mut String, attempts: &[Attempts]) {
    let mut names: Vec<&str> = Vec::new();
    for name in crate::record::episode::Label::ALL.iter().map(|label| label.name()).chain(["not_graded"]) {
        if attempts.iter().any(|attempts| count_of(&attempts.labels, name) > 0) {
            names.push(name);
        }
    }
    line(out, &header("label", attempts));
    for name in names {
        let mut row = format!("  {name:<18}");
        for attempts in attempts {
            let count = count_of(&attempts.labels, name);
            let share = 100.0 * count as f64 / attempts.n_episodes.max(1) as f64;
            let cell = if count == 0 { "·".to_owned() } else { format!("{count} {share:>4.0} %") };
            write!(row, "{cell:>18}").expect("writing to a string cannot fail");
        }
        line(out, &row);
    }
}

fn attempts(out: &mut String, attempts: &[Attempts]) {
    let mut row = |name: &str, cell: &dyn Fn(&Attempts) -> String| {
        line(out, &columns(name, attempts.iter().map(cell)));
    };
    row("", &|_| String::new());
    row("episodes", &|a| a.n_episodes.to_string());
    row("tasks", &|a| a.n_tasks.to_string());
    for k in [1, 2, 4, 8] {
        if attempts.iter().any(|a| a.pass_at.iter().any(|p| p.k == k)) {
            row(&format!("pass@{k}"), &|a| {
                a.pass_at.iter().find(|p| p.k == k).map_or("·".to_owned(), |p| format!("{:.3}", p.value))
            });
        }
    }
    row("steps, median", &|a| a.n_steps.median.to_string());
    row("steps, most", &|a| a.n_steps.max.to_string());
    row("tokens, median", &|a| a.n_tokens.median.to_string());
    row("tokens, all", &|a| a.n_tokens.total.to_string());
    row("policy time", &|a| seconds(a.times.policy_ms));
    row("tool time", &|a| seconds(a.times.tool_ms));
    row("other time", &|a| seconds(a.times.other_ms));
    row("grading time", &|a| seconds(a.times.grade_ms));
}

fn header(first: &str, attempts: &[Attempts]) -> String {
    format!("\n{}", columns(first, attempts.iter().map(|attempts| attempts.policy.clone())))
}

fn columns(first: &str, cells: impl Iterator<Item = String>) -> String {
    let mut row = format!("  {first:<18}");
    cells.for_each(|cell| write!(row, "{cell:>18}").expect("writing to a string cannot fail"));
    row
}

fn count_of(losses: &[Loss], name: &str) -> usize {
    losses.iter().find(|loss| loss.reason == name).map_or(0, |loss| loss.count)
}

fn seconds(ms: u64) -> String {
    format!("{:.1} s", ms as f64 / 1_000.0)
}

fn pairs(counts: &Counts) -> String {
    let parts: Vec<String> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
    parts.join(", ")
}

fn listed(losses: &[Loss]) -> Vec<String> {
    losses.iter().map(|loss| format!("{} {}", loss.reason, loss.count)).collect()
}

/// Appends parts with commas, going on in the column `indent` before the width is reached.
fn wrap(row: &mut String, parts: &[String], indent: usize, width: usize) {
    let mut column = indent;
    for (index, part) in parts.iter().enumerate() {
        let last = index + 1 == parts.len();
        if column > indent && column + part.len() + 2 > width {
            row.truncate(row.trim_end().len());
            row.push('\n');
            row.push_str(&" ".repeat(indent));
            column = indent;
        }
        row.push_str(part);
        row.push_str(if last { "" } else { ", " });
        column += part.len() + 2;
    }
}

fn line(out: &mut String, text: &str) {
    writeln!(out, "{}", text.trim_end()).expect("writing to a string cannot fail");
}

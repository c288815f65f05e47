//! The loop with tools that answer from a function.

use std::collections::VecDeque;

use super::*;

/// Replies with raw calls `(tool, argument text)`, then says nothing more.
struct Replies(VecDeque<Vec<(&'static str, String)>>);

impl Policy for Replies {
    fn next(&mut self, _history: &[Message]) -> Turn {
        let calls = self.0.pop_front().unwrap_or_default();
        let calls = calls.into_iter().map(|(name, arguments)| Call { name: name.to_owned(), arguments }).collect();
        Turn::Reply(Reply { content: "words".to_owned(), calls, ..Reply::default() })
    }
}

const BUDGET: Budget = Budget { max_steps: 20, max_tokens: 100_000, max_wall_s: 60, command_s: 5 };

fn bash(command: &str) -> (&'static str, String) {
    ("bash", format!(r#"{{"command": "{command}"}}"#))
}

/// Runs the loop; `answer` gets the command and how many were carried out before.
fn converse_with(
    replies: Vec<Vec<(&'static str, String)>>,
    budget: Budget,
    answer: &dyn Fn(&str, usize) -> Result<String, Trouble>,
) -> (StopReason, Vec<Message>) {
    let mut n_done = 0;
    let mut perform = |action: &Action| {
        let text = match action {
            Action::Bash { command } => answer(command, n_done)?,
            _ => "done".to_owned(),
        };
        n_done += 1;
        Ok(Observation { shown: text.clone(), essence: text })
    };
    let mut log = Log::open(vec![prompt::message(Speaker::User, "go".to_owned())], &|_| ());
    let end = converse(&mut perform, &mut Replies(replies.into()), budget, &mut log).unwrap();
    (end.stop, log.messages)
}

#[expect(clippy::unnecessary_wraps, reason = "one of several answers")]
fn echo(command: &str, _n: usize) -> Result<String, Trouble> {
    Ok(format!("ran {command}"))
}

fn answers(messages: &[Message]) -> Vec<(&str, &str)> {
    let tools = messages.iter().filter(|message| message.role == Speaker::Tool);
    tools.map(|message| (message.tool_call_id.as_deref().unwrap(), message.content.as_str())).collect()
}

fn finish() -> (&'static str, String) {
    ("finish", "{}".to_owned())
}

#[test]
fn every_call_of_a_reply_is_answered_once_in_order_also_after_the_end() {
    let (stop, messages) =
        converse_with(vec![vec![bash("a"), ("bash", "{".to_owned()), finish(), bash("b")]], BUDGET, &echo);
    assert_eq!(stop, StopReason::Finished);
    let answers = answers(&messages);
    assert_eq!(
        answers.iter().map(|(id, _)| *id).collect::<Vec<_>>(),
        ["call_0001", "call_0002", "call_0003", "call_0004"]
    );
    assert_eq!(answers[0].1, "ran a");
    assert!(answers[1].1.starts_with("error: EOF"), "{}", answers[1].1);
    assert_eq!(answers[3].1, NOT_RUN);
    assert_eq!(messages[1].tool_calls[1].arguments[MALFORMED], "{");
    assert_eq!(messages[1].train, Some(false));
}

#[test]
fn replies_without_a_usable_call_end_after_three() {
    let (stop, messages) = converse_with(vec![], BUDGET, &echo);
    assert_eq!(stop, StopReason::Stuck);
    assert_eq!(messages.iter().filter(|message| message.role == Speaker::Assistant).count(), 3);
    let malformed = |text: &str| vec![("bash", text.to_owned())];
    let mixed = vec![malformed("[1]"), vec![("submit", String::new())], malformed("{\"x\": 1}"), vec![bash("never")]];
    let (stop, messages) = converse_with(mixed, BUDGET, &echo);
    assert_eq!(stop, StopReason::Stuck);
    assert!(answers(&messages).iter().all(|(_, text)| text.starts_with("error: ")));
}

#[test]
fn a_usable_call_between_forgives_an_idle_reply() {
    let replies = vec![vec![], vec![], vec![bash("a")], vec![], vec![], vec![finish()]];
    assert_eq!(converse_with(replies, BUDGET, &echo).0, StopReason::Finished);
}

#[test]
fn going_round_in_circles_ends_the_episode_and_waiting_does_not() {
    let same = || vec![vec![bash("ls")]; 10];
    assert_eq!(converse_with(same(), BUDGET, &echo).0, StopReason::Stuck);
    let changing = |_: &str, n: usize| Ok(format!("line {n}"));
    let mut replies = same();
    replies.push(vec![finish()]);
    assert_eq!(converse_with(replies, BUDGET, &changing).0, StopReason::Finished);
}

#[test]
fn each_budget_has_its_own_stop_and_the_last_steps_are_counted_down() {
    let steps = || (0..30).map(|n| vec![bash(&format!("echo {n}"))]).collect::<Vec<_>>();
    let (stop, messages) = converse_with(steps(), Budget { max_steps: 7, ..BUDGET }, &echo);
    assert_eq!(stop, StopReason::MaxSteps);
    let answers = answers(&messages);
    assert_eq!(answers.len(), 7);
    assert_eq!(answers[0].1, "ran echo 0");
    assert!(answers[1].1.ends_with("[5 replies left]") && answers[5].1.ends_with("[1 reply left]"), "{answers:?}");
    let (stop, _) = converse_with(steps(), Budget { max_tokens: 60, ..BUDGET }, &echo);
    assert_eq!(stop, StopReason::MaxTokens);
    let (stop, _) = converse_with(steps(), Budget { max_wall_s: 0, ..BUDGET }, &echo);
    assert_eq!(stop, StopReason::MaxWall);
}

#[test]
fn a_lost_sandbox_ends_the_episode_with_every_call_answered() {
    let lose = |_: &str, _: usize| Err(Trouble::Lost("gone".to_owned()));
    let (stop, messages) = converse_with(vec![vec![bash("a"), bash("b")]], BUDGET, &lose);
    assert_eq!(stop, StopReason::Infrastructure);
    assert_eq!(answers(&messages), [("call_0001", "error: the sandbox was lost"), ("call_0002", NOT_RUN)]);
}

#[test]
fn giving_up_is_a_stop_of_its_own() {
    let replies = vec![vec![("finish", r#"{"gave_up": true, "summary": "no idea"}"#.to_owned())]];
    assert_eq!(converse_with(replies, BUDGET, &echo).0, StopReason::GaveUp);
}

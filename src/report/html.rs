//! The records as one page that needs nothing else: styles, script and data are inside, nothing is fetched.
//!
//! Data is JSON in inert script elements, in which no `<` is left, and reaches the document as text nodes only; a content
//! security policy forbids everything besides. Each task and each episode is a block of its own that is parsed when it
//! is opened.

use serde::Serialize;

use super::{Input, Summary, page};

const VIEWER: &str = include_str!("viewer.html");

/// Returns the page.
pub fn html(input: &Input, summary: &Summary) -> String {
    let (before_title, rest) = VIEWER.split_once("{{title}}").expect("the viewer has a place for its title");
    let (before_data, after_data) = rest.split_once("{{data}}").expect("the viewer has a place for its data");
    let mut html = String::with_capacity(VIEWER.len() + (1 << 20));
    html.push_str(before_title);
    html.push_str(&escape_html(&summary.dataset));
    html.push_str(before_data);
    block(&mut html, "overview", &page::overview(input, summary));
    for (index, detail) in page::task_details(input).enumerate() {
        block(&mut html, &format!("task-{index}"), &detail);
    }
    for (index, detail) in page::episode_details(input).enumerate() {
        block(&mut html, &format!("episode-{index}"), &detail);
    }
    html.push_str(after_data);
    html
}

fn block(html: &mut String, id: &str, data: &impl Serialize) {
    let json = serde_json::to_string(data).expect("records have string keys");
    html.push_str("<script type=\"application/json\" id=\"");
    html.push_str(id);
    html.push_str("\">");
    html.push_str(&escape_json(&json));
    html.push_str("</script>\n");
}

/// Escapes what could end the element or a line of it; these characters occur in JSON only inside strings.
fn escape_json(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            '<' => escaped.push_str("\\u003c"),
            '>' => escaped.push_str("\\u003e"),
            '&' => escaped.push_str("\\u0026"),
            '\u{2028}' => escaped.push_str("\\u2028"),
            '\u{2029}' => escaped.push_str("\\u2029"),
            other => escaped.push(other),
        }
    }
    escaped
}

fn escape_html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_ends_its_element_and_all_of_it_comes_back() {
        let text = "</script><!--<script>&amp;\u{2028}\u{2029}\"'\u{0}";
        let escaped = escape_json(&serde_json::to_string(text).unwrap());
        assert!(!escaped.contains(['<', '>', '&', '\u{2028}', '\u{2029}']));
        assert_eq!(serde_json::from_str::<String>(&escaped).unwrap(), text);
    }
}

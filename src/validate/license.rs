//! Licence text → SPDX id, by phrases that only that licence has. Pure; unknown stays unknown.

/// Phrases of each licence in lower case with single blanks; the first row all of whose phrases occur wins.
const PHRASES: &[(&str, &[&str])] = &[
    ("Apache-2.0", &["apache license", "version 2.0"]),
    ("AGPL-3.0-only", &["gnu affero general public license", "version 3"]),
    ("LGPL-3.0-only", &["gnu lesser general public license", "version 3"]),
    ("LGPL-2.1-only", &["gnu lesser general public license", "version 2.1"]),
    ("GPL-3.0-only", &["gnu general public license", "version 3"]),
    ("GPL-2.0-only", &["gnu general public license", "version 2"]),
    ("MPL-2.0", &["mozilla public license", "2.0"]),
    ("BSD-3-Clause", &["redistribution and use in source and binary forms", "neither the name", "endorse or promote"]),
    ("BSD-3-Clause", &["redistribution and use in source and binary forms", "names of", "endorse or promote"]),
    ("BSD-3-Clause", &["redistribution and use in source and binary forms", "name of the", "endorse or promote"]),
    ("BSD-2-Clause", &["redistribution and use in source and binary forms", "this list of conditions"]),
    ("ISC", &["permission to use, copy, modify, and/or distribute this software for any purpose"]),
    ("ISC", &["permission to use, copy, modify, and distribute this software for any purpose with or without fee"]),
    ("MIT", &["permission is hereby granted, free of charge", "the software is provided \"as is\""]),
    ("Unlicense", &["this is free and unencumbered software released into the public domain"]),
    ("0BSD", &["permission to use, copy, modify, and/or distribute this software", "zero-clause"]),
    ("PSF-2.0", &["python software foundation license"]),
];

/// Returns the SPDX id of a licence text, `None` where it is not one of the known ones.
pub fn spdx(text: &[u8]) -> Option<&'static str> {
    let text = String::from_utf8_lossy(text).to_lowercase();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ").replace(['“', '”'], "\"").replace("''", "\"");
    let text = text.replace("``as is\"", "\"as is\"");
    PHRASES.iter().find(|(_, phrases)| phrases.iter().all(|phrase| text.contains(phrase))).map(|(id, _)| *id)
}

/// Whether a path at the top of a tree holds the licence.
pub fn is_license_file(path: &str) -> bool {
    let name = path.to_ascii_lowercase();
    !name.contains('/') && (name.starts_with("license") || name.starts_with("licence") || name.starts_with("copying"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_texts_are_known_and_others_are_not() {
        let mit = b"Copyright (c) Someone Else\n\nPermission is hereby granted, free of\ncharge, to any person ...\nTHE SOFTWARE IS PROVIDED \"AS IS\", WITHOUT";
        assert_eq!(spdx(mit), Some("MIT"));
        let bsd = b"Redistribution and use in source and binary forms, with or without modification ... this list of conditions ... Neither the name of X ... used to endorse or promote products";
        assert_eq!(spdx(bsd), Some("BSD-3-Clause"));
        assert_eq!(spdx(b"All rights reserved. Ask before you copy."), None);
        assert!(is_license_file("LICENSE.txt") && !is_license_file("docs/license.rst"));
    }
}

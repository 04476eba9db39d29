//! How the bytes of a Python file become text and bytes again.
//!
//! Owns the byte order mark and the coding line of PEP 263. Invariant: decoding and then encoding gives the same bytes;
//! a file for which that does not hold is carried as raw bytes. Must not look at Python syntax beyond the coding line.

use encoding_rs::Encoding as Charset;

/// How a file is written on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// UTF-8 without a mark.
    Utf8,
    /// UTF-8 behind a byte order mark, which is not part of the text.
    Utf8Mark,
    /// ISO 8859-1: each byte is the character of that number.
    Latin1,
    /// Another charset that the coding line names.
    Named(&'static Charset),
    /// Bytes that the declared encoding does not round-trip: each byte stands as one character and is never parsed.
    Raw,
}

const MARK: &[u8] = b"\xef\xbb\xbf";

impl Encoding {
    /// Finds the encoding of a file and decodes it. Never fails: what cannot be decoded comes back as `Raw`.
    pub fn decode(bytes: &[u8]) -> (Encoding, String) {
        let (mark, body) = match bytes.strip_prefix(MARK) {
            Some(rest) => (true, rest),
            None => (false, bytes),
        };
        let declared = coding_line(body);
        let label = declared.as_deref().map(normalise);
        let is_utf8 = matches!(label.as_deref(), None | Some("utf-8"));
        if mark || is_utf8 {
            let encoding = if mark {
                Encoding::Utf8Mark
            } else {
                Encoding::Utf8
            };
            return match std::str::from_utf8(body) {
                Ok(text) if is_utf8 => (encoding, text.to_owned()),
                _ => (Encoding::Raw, latin1(bytes)),
            };
        }
        match label.as_deref() {
            Some("iso-8859-1") => (Encoding::Latin1, latin1(body)),
            Some(label) => match Charset::for_label(label.as_bytes()) {
                Some(charset) => {
                    let encoding = Encoding::Named(charset);
                    match charset.decode_without_bom_handling_and_without_replacement(body) {
                        Some(text) if encoding.encode(&text).as_deref() == Some(body) => {
                            (encoding, text.into_owned())
                        }
                        _ => (Encoding::Raw, latin1(body)),
                    }
                }
                None => (Encoding::Raw, latin1(body)),
            },
            None => (Encoding::Raw, latin1(body)),
        }
    }

    /// The bytes of a text; `None` when the text holds a character that the encoding lacks.
    pub fn encode(self, text: &str) -> Option<Vec<u8>> {
        match self {
            Encoding::Utf8 => Some(text.as_bytes().to_vec()),
            Encoding::Utf8Mark => Some([MARK, text.as_bytes()].concat()),
            Encoding::Latin1 | Encoding::Raw => text
                .chars()
                .map(|character| u8::try_from(u32::from(character)).ok())
                .collect(),
            Encoding::Named(charset) => {
                let (bytes, _, unmappable) = charset.encode(text);
                (!unmappable).then(|| bytes.into_owned())
            }
        }
    }
}

fn latin1(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

/// The name that the first or second line declares, as PEP 263 reads it.
fn coding_line(body: &[u8]) -> Option<String> {
    for line in body.split(|&byte| byte == b'\n').take(2) {
        let line: &[u8] = line.strip_suffix(b"\r").unwrap_or(line);
        if let Some(name) = declared_coding(line) {
            return Some(name);
        }
        let text = line.trim_ascii_start();
        if !text.is_empty() && text[0] != b'#' {
            return None;
        }
    }
    None
}

/// The encoding that one comment line declares.
pub(crate) fn declared_coding(line: &[u8]) -> Option<String> {
    let line = line.trim_ascii_start();
    let line = line.strip_prefix(b"\x0c").unwrap_or(line);
    if line.first() != Some(&b'#') {
        return None;
    }
    let at = line.windows(6).position(|window| window == b"coding")?;
    let rest = &line[at + 6..];
    let rest = match rest.first() {
        Some(b':' | b'=') => &rest[1..],
        _ => return None,
    };
    let rest = rest.trim_ascii_start();
    let length = rest
        .iter()
        .position(|byte| !(byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')))
        .unwrap_or(rest.len());
    (length > 0).then(|| String::from_utf8_lossy(&rest[..length]).into_owned())
}

fn normalise(name: &str) -> String {
    let name = name.to_ascii_lowercase().replace('_', "-");
    match name.as_str() {
        "utf8" | "u8" | "utf" | "ascii" | "us-ascii" => "utf-8".to_owned(),
        "latin-1" | "latin1" | "l1" | "iso8859-1" | "iso-8859-1" | "8859" | "cp819" => {
            "iso-8859-1".to_owned()
        }
        _ if name.starts_with("utf-8-") => "utf-8".to_owned(),
        _ if name.starts_with("latin-1-") || name.starts_with("iso-8859-1-") => {
            "iso-8859-1".to_owned()
        }
        _ => match name.strip_prefix("cp") {
            Some(page) if page.starts_with("125") => format!("windows-{page}"),
            Some("932") => "shift-jis".to_owned(),
            Some("949") => "euc-kr".to_owned(),
            Some("936") => "gbk".to_owned(),
            Some("950") => "big5".to_owned(),
            _ => name,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn round_trip(bytes: &[u8], encoding: Encoding, text: &str) {
        let (found, decoded) = Encoding::decode(bytes);
        assert_eq!((found, decoded.as_str()), (encoding, text));
        assert_eq!(found.encode(&decoded).as_deref(), Some(bytes));
    }

    #[test]
    fn every_encoding_comes_back_byte_for_byte() {
        round_trip(b"x = 1\r\n", Encoding::Utf8, "x = 1\r\n");
        round_trip(b"\xef\xbb\xbfx = 1", Encoding::Utf8Mark, "x = 1");
        round_trip(
            b"# -*- coding: latin-1 -*-\ns = '\xe9\x85'\n",
            Encoding::Latin1,
            "# -*- coding: latin-1 -*-\ns = 'é\u{85}'\n",
        );
        round_trip(
            b"#!/usr/bin/python\n# vim: set fileencoding=cp1252 :\ns = '\x80'\n",
            Encoding::Named(encoding_rs::WINDOWS_1252),
            "#!/usr/bin/python\n# vim: set fileencoding=cp1252 :\ns = '€'\n",
        );
        round_trip(
            b"# coding: koi8-r\ns = '\xc1'\n",
            Encoding::Named(encoding_rs::KOI8_R),
            "# coding: koi8-r\ns = 'а'\n",
        );
        round_trip(b"s = '\xe9'\n", Encoding::Raw, "s = 'é'\n");
        round_trip(
            b"# coding: no-such\nx = 1\n",
            Encoding::Raw,
            "# coding: no-such\nx = 1\n",
        );
        round_trip(
            b"x = 1\n\n# coding: latin-1\n",
            Encoding::Utf8,
            "x = 1\n\n# coding: latin-1\n",
        );
    }
}

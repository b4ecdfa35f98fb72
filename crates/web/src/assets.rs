//! The files of the page, built into the program. They contain no secrets.

use axum::body::Bytes;
use axum::extract::Path;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{Html, IntoResponse, Response};
use xxhash_rust::xxh3::xxh3_128;

use crate::http::layers;

/// The page itself.
const INDEX: &str = include_str!("../assets/index.html");

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";

/// Name under `/assets/`, type, contents.
type Asset = (&'static str, &'static str, &'static [u8]);

macro_rules! asset {
    ($name:literal, $kind:expr, $path:literal) => {
        ($name, $kind, include_bytes!(concat!("../assets/", $path)))
    };
    ($name:literal, $kind:expr) => {
        asset!($name, $kind, $name)
    };
}

const ASSETS: [Asset; 16] = [
    asset!("app.js", SCRIPT),
    asset!("text.js", SCRIPT),
    asset!("colours.js", SCRIPT),
    asset!("dialogs.js", SCRIPT),
    asset!("server.js", SCRIPT),
    asset!("timeline.js", SCRIPT),
    asset!("charts.js", SCRIPT),
    asset!("nodes.js", SCRIPT),
    asset!("partitions.js", SCRIPT),
    asset!("failed.js", SCRIPT),
    asset!("take.js", SCRIPT),
    asset!("app.css", STYLE),
    asset!("favicon.svg", "image/svg+xml"),
    asset!("uPlot.iife.min.js", SCRIPT, "vendor/uPlot.iife.min.js"),
    asset!("uPlot.min.css", STYLE, "vendor/uPlot.min.css"),
    asset!("uPlot.LICENSE.txt", TEXT, "vendor/uPlot.LICENSE.txt"),
];

/// Sends the page.
pub(crate) async fn index() -> Html<&'static str> {
    Html(INDEX)
}

/// Sends a file, unless the browser has this version of it.
pub(crate) async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Response {
    let Some((_, kind, bytes)) = ASSETS.into_iter().find(|(known, ..)| *known == name) else {
        return layers::not_found().await;
    };
    let tag = format!("\"{:032x}\"", xxh3_128(bytes));
    let cached = headers.get(IF_NONE_MATCH);
    let is_cached = cached.is_some_and(|cached| cached.as_bytes() == tag.as_bytes());
    let headers = [
        (CONTENT_TYPE, kind),
        (CACHE_CONTROL, "no-cache"),
        (ETAG, tag.as_str()),
    ];
    match is_cached {
        true => (StatusCode::NOT_MODIFIED, headers).into_response(),
        false => (headers, Bytes::from_static(bytes)).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vendored_files_are_as_their_authors_published_them() {
        // The npm package uplot, version 1.6.32, its folder dist.
        for (name, digest) in [
            ("uPlot.iife.min.js", "17c1be4cf094735c11f88858399f6797"),
            ("uPlot.min.css", "b218ae953ddb92eb3321977fee4649a4"),
        ] {
            let (_, _, bytes) = ASSETS.into_iter().find(|(it, ..)| *it == name).unwrap();
            assert_eq!(format!("{:032x}", xxh3_128(bytes)), digest, "{name}");
        }
    }

    #[test]
    fn every_file_of_the_page_is_served() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/assets");
        for folder in [folder.to_owned(), format!("{folder}/vendor")] {
            for file in std::fs::read_dir(folder).unwrap() {
                let name = file.unwrap().file_name().into_string().unwrap();
                let known = ASSETS.iter().any(|(known, ..)| *known == name);
                let needed = [".js", ".css", ".svg", ".txt"]
                    .iter()
                    .any(|end| name.ends_with(end));
                assert!(known || !needed, "{name}");
            }
        }
    }
}

//! The results as text: a line for each cell, and the tables of docs/performance.md.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use baton_print::thousands;

use super::cell::{Cell, Persistence};
use super::goal;

/// The head of the lines.
pub(super) const HEAD: &str = "\
server        disk      workers     text  ours ÷ unsafe (spread)  goal       audited    ours/s   unsafe/s  \
Redis µs: ours unsafe SET+GET  client µs: ours unsafe  AOF ÷ text: ours unsafe  batch";

/// A cell as one line.
pub(super) fn line(cell: &Cell) -> String {
    let ratio = cell.ratio();
    let spread = format!("{:.2} ({:.2}–{:.2})", ratio.median, ratio.min, ratio.max);
    let least = goal::min_ratio(cell);
    let verdict = if ratio.median >= least {
        "ok"
    } else {
        "MISSED"
    };
    let [rate, floor_rate] = cell.rates().map(rounded);
    let [redis, floor_redis, bare] = cell.redis_us().map(micros);
    let optional = |figure: Option<f64>| figure.map_or("–".to_owned(), micros);
    let [client, floor_client] = cell.client_us().map(optional);
    let [aof, floor_aof] = cell.aof_share().map(optional);
    let audited = cell.audited_ratio().median;
    format!(
        "{:<13} {:<9} {:>7} {:>8}  {spread:<22} {least:>3.1} {verdict:<6} {audited:>7.2} {rate:>10} {floor_rate:>10} \
         {redis:>14} {floor_redis:>6} {bare:>7} {client:>16} {floor_client:>6} {aof:>17} \
         {floor_aof:>6} {:>6}",
        cell.server,
        cell.persistence.name(),
        cell.workers,
        text(cell.text_bytes),
        cell.floor_batch,
    )
}

const TABLE_HEAD: &str = "\
| text | ours ÷ unsafe queue | with our audit | one worker | everysec | everysec, one worker | messages/s | unsafe queue | Redis µs per message | unsafe queue | SET + GET | append-only bytes ÷ text | unsafe queue |
|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|
";

/// The text of the section: the plot, and a table for each server.
pub(super) fn document(cells: &[Cell]) -> Result<String> {
    let first = cells
        .first()
        .context("there are no results: measure first")?;
    let counts = || cells.iter().map(|cell| cell.runs.len());
    let runs = match (counts().min(), counts().max()) {
        (Some(min), Some(max)) if min < max => format!("{min} to {max}"),
        (min, _) => min.unwrap_or_default().to_string(),
    };
    let mut document = format!(
        "![Redis CPU per message over the size of texts, for ours, the unsafe queue and a bare SET \
         and GET](sizes.svg)\n\nOn {} cores, the median of {runs} runs, by turns; two workers and no \
         persistence where the column names neither. In parentheses: the least and the most.\n",
        first.cores
    );
    for server in servers(cells) {
        let _ = write!(document, "\n**{server}**\n\n{TABLE_HEAD}");
        for row in rows(cells, server) {
            let _ = writeln!(document, "{row}");
        }
    }
    document.truncate(document.trim_end().len());
    Ok(document)
}

/// The servers of the cells, in order.
pub(super) fn servers(cells: &[Cell]) -> Vec<&str> {
    let mut servers: Vec<&str> = cells.iter().map(|cell| cell.server.as_str()).collect();
    servers.sort_unstable();
    servers.dedup();
    servers
}

/// A row for each size.
fn rows(cells: &[Cell], server: &str) -> Vec<String> {
    let cells: Vec<&Cell> = cells.iter().filter(|cell| cell.server == server).collect();
    let mut sizes: Vec<usize> = cells.iter().map(|cell| cell.text_bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let row = |size: usize| {
        let find = |persistence, workers| {
            cells.iter().copied().find(|cell| {
                (cell.persistence, cell.workers, cell.text_bytes) == (persistence, workers, size)
            })
        };
        let ratio = |cell: Option<&Cell>| {
            cell.map_or(String::new(), |cell| {
                let ratio = cell.ratio();
                format!("{:.2} ({:.2}–{:.2})", ratio.median, ratio.min, ratio.max)
            })
        };
        let usual = find(Persistence::None, 2);
        let everysec = find(Persistence::Everysec, 2);
        let rates = usual.map_or(Default::default(), |cell| cell.rates().map(rounded));
        let redis = usual.map_or(Default::default(), |cell| cell.redis_us().map(micros));
        let optional = |figure: Option<f64>| figure.map_or(String::new(), micros);
        let aof = everysec.map_or(Default::default(), |cell| cell.aof_share().map(optional));
        let mut columns = vec![
            text(size),
            ratio(usual),
            usual.map_or(String::new(), |cell| {
                format!("{:.2}", cell.audited_ratio().median)
            }),
            ratio(find(Persistence::None, 1)),
            ratio(everysec),
            ratio(find(Persistence::Everysec, 1)),
        ];
        columns.extend(rates.into_iter().chain(redis).chain(aof));
        format!("| {} |", columns.join(" | "))
    };
    sizes.into_iter().map(row).collect()
}

/// A size in words.
pub(super) fn text(bytes: usize) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        _ => format!("{} KiB", bytes >> 10),
    }
}

/// A rate with three digits: more would not be the same in the next run.
fn rounded(rate: f64) -> String {
    let unit = 10f64.powi(rate.max(1.0).log10() as i32 - 2).max(1.0);
    thousands(((rate / unit).round() * unit) as u64)
}

/// A figure with three digits, or two behind the point.
fn micros(figure: f64) -> String {
    match figure {
        figure if figure >= 99.95 => format!("{figure:.0}"),
        figure if figure >= 9.995 => format!("{figure:.1}"),
        figure => format!("{figure:.2}"),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::cell::{Measured, Pair};
    use super::*;

    /// A sample whose ratio is 1.25.
    pub(crate) fn cell(server: &str, text_bytes: usize, workers: usize) -> Cell {
        let measured = |seconds, redis_us| Measured {
            seconds,
            audit_seconds: seconds - 0.8,
            redis_us,
            client_us: Some(0.5),
            aof_bytes: Some(1.6 * text_bytes as f64),
        };
        let pair = Pair {
            ours: measured(1.0, 0.3),
            floor: Measured {
                audit_seconds: 0.0,
                ..measured(1.0, 0.4)
            },
            set_and_get_us: 0.1,
        };
        Cell {
            server: server.to_owned(),
            persistence: Persistence::None,
            workers,
            text_bytes,
            messages: 1_000_000,
            error_rate: 0.05,
            floor_batch: 500,
            cores: 2,
            measured_at: 0,
            runs: vec![pair],
        }
    }

    #[test]
    fn the_document_has_a_table_for_each_server_and_a_row_for_each_size() {
        let cells = [
            cell("Valkey 9.1.2", 4096, 2),
            cell("Valkey 9.1.2", 64, 2),
            cell("Valkey 9.1.2", 64, 1),
            cell("Redis 7.0.15", 64, 2),
        ];
        let document = document(&cells).unwrap();
        let rows: Vec<&str> = document
            .lines()
            .filter(|line| line.contains(" B |"))
            .collect();
        let row = "| 64 B | 1.25 (1.25–1.25) | 1.00 | 1.25 (1.25–1.25) |  |  | 1,250,000 | 1,000,000 | 0.30 \
                   | 0.40 | 0.10 |  |  |";
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[1], row);
        assert!(document.contains("**Redis 7.0.15**"));
        assert!(document.contains("\n| 4 KiB | 1.25"));
    }

    #[test]
    fn figures_have_about_three_digits() {
        assert_eq!(
            [0.204, 9.999, 12.34, 123.4].map(micros),
            ["0.20", "10.0", "12.3", "123"]
        );
        assert_eq!(rounded(1_234_567.0), "1,230,000");
    }
}

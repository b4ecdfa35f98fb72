//! Labels that do not cover each other: flags on poles, on several levels.

/// The levels on which a flag may carry its whole text. Lower levels are for short flags only.
const WHOLE_LEVELS: usize = 5;

/// A label that needs room.
#[derive(Debug, Clone, Copy)]
pub struct Label {
    /// Where its pole is.
    pub at: f64,
    /// Its width with its whole text.
    pub whole: f64,
    /// Its width with its number alone.
    pub short: f64,
}

/// The place of a label.
#[derive(Debug, Clone, Copy)]
pub struct Flag {
    /// Its level; 0 is the topmost.
    pub level: usize,
    /// Its left edge.
    pub from: f64,
    /// Its right edge.
    pub to: f64,
    /// Whether there was room for the whole text.
    pub whole: bool,
}

/// Places labels, given from left to right, between the edges of the picture. A flag hangs to the
/// right of its pole, and near the right edge to the left of it.
pub fn place(labels: &[Label], edges: (f64, f64)) -> Vec<Flag> {
    let mut flags: Vec<Flag> = Vec::new();
    for label in labels {
        let whole = room(&flags, label.at, label.whole, edges, 0..WHOLE_LEVELS, true);
        let flag = whole.or_else(|| room(&flags, label.at, label.short, edges, 0.., false));
        flags.extend(flag);
    }
    flags
}

/// The level where the pole crosses the fewest other labels on its way down.
fn room(
    flags: &[Flag],
    at: f64,
    width: f64,
    edges: (f64, f64),
    levels: impl Iterator<Item = usize>,
    whole: bool,
) -> Option<Flag> {
    let from = if at + width <= edges.1 {
        at
    } else {
        (at - width).max(edges.0)
    };
    let to = from + width;
    let fits = |level: usize| {
        let mut others = flags.iter().filter(|flag| flag.level == level);
        others.all(|flag| flag.to <= from || to <= flag.from)
    };
    let crossed = |level: usize| {
        let below = flags.iter().filter(|flag| flag.level > level);
        below.filter(|flag| flag.from < at && at < flag.to).count()
    };
    // One level more than are in use is always free.
    let used = flags.iter().map(|flag| flag.level + 1).max().unwrap_or(0);
    let level = levels
        .take_while(|level| *level <= used)
        .filter(|level| fits(*level))
        .min_by_key(|level| crossed(*level))?;
    Some(Flag {
        level,
        from,
        to,
        whole,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_never_overlap_and_stay_between_the_edges() {
        let places = (0..200).map(|index| f64::from(index * index % 97) * 10.0);
        let mut places: Vec<f64> = places.collect();
        places.sort_by(f64::total_cmp);
        let labels: Vec<Label> = places
            .iter()
            .map(|at| Label {
                at: *at,
                whole: 140.0,
                short: 18.0,
            })
            .collect();
        let flags = place(&labels, (0.0, 970.0));
        assert_eq!(flags.len(), labels.len());
        assert!(flags.iter().any(|flag| flag.whole));
        assert!(flags.iter().any(|flag| !flag.whole));
        for (index, one) in flags.iter().enumerate() {
            assert!(one.from >= 0.0 && one.to <= 970.0);
            for other in &flags[index + 1..] {
                let apart = one.to <= other.from || other.to <= one.from;
                assert!(one.level != other.level || apart);
            }
        }
    }

    #[test]
    fn a_label_that_begins_under_another_hangs_lower() {
        let label = |at| Label {
            at,
            whole: 100.0,
            short: 20.0,
        };
        let flags = place(&[label(0.0), label(50.0), label(200.0)], (0.0, 1000.0));
        let levels: Vec<usize> = flags.iter().map(|flag| flag.level).collect();
        assert_eq!(levels, [0, 1, 0]);
    }
}

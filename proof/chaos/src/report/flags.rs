//! Labels that do not cover each other: flags on poles, on several levels.

/// Up to this level a flag may carry its whole text; further ones are there so that at least
/// its number finds room.
const WORDY: usize = 5;

/// A label that wants to stand at a place.
pub(super) struct Wish {
    /// Where its pole is.
    pub(super) at: f64,
    /// How wide it is with its whole text.
    pub(super) whole: f64,
    /// How wide it is with its number alone.
    pub(super) short: f64,
}

/// Where a label found room.
#[derive(Clone, Copy)]
pub(super) struct Flag {
    /// Its level; 0 is the topmost.
    pub(super) level: usize,
    /// Its left edge.
    pub(super) from: f64,
    /// Its right edge.
    pub(super) to: f64,
    /// Whether there was room for the whole text.
    pub(super) whole: bool,
}

/// Finds room for labels, given from left to right, between the edges of the picture.
pub(super) fn hoist(wishes: &[Wish], edges: (f64, f64)) -> Vec<Flag> {
    let mut flags: Vec<Flag> = Vec::new();
    for wish in wishes {
        let whole = room(&flags, wish.at, wish.whole, edges, 0..WORDY, true);
        let flag = whole.or_else(|| room(&flags, wish.at, wish.short, edges, 0.., false));
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
        let wishes: Vec<Wish> = places
            .iter()
            .map(|at| Wish {
                at: *at,
                whole: 140.0,
                short: 18.0,
            })
            .collect();
        let flags = hoist(&wishes, (0.0, 970.0));
        assert_eq!(flags.len(), wishes.len());
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
        let wish = |at| Wish {
            at,
            whole: 100.0,
            short: 20.0,
        };
        let flags = hoist(&[wish(0.0), wish(50.0), wish(200.0)], (0.0, 1000.0));
        let levels: Vec<usize> = flags.iter().map(|flag| flag.level).collect();
        assert_eq!(levels, [0, 1, 0]);
    }
}

//! The replicas of a server, as `INFO replication` of their master lists them.

use serde::Serialize;

use super::field;

/// Max replicas that a list has. No server has that many; an answer that claims so stays short.
const MAX_LISTED: usize = 32;
/// Max characters of an address or a state.
const MAX_CHARS: usize = 64;

/// A replica, as its master sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Replica {
    /// Its address, such as `10.0.0.2:6379`.
    pub address: String,
    /// `online` if it follows; otherwise how far its first copy is, such as `send_bulk`.
    pub state: String,
    /// How many bytes of the master's writes it had not yet acknowledged. Replicas acknowledge every
    /// second, so of a busy master this is some 1 s of writes, even if the replica has them all.
    pub behind_bytes: u64,
    /// How long ago it last acknowledged, in seconds; none if it does not follow yet.
    pub lag_s: Option<u64>,
}

impl Replica {
    /// Whether it follows its master.
    pub fn is_online(&self) -> bool {
        self.state == "online"
    }

    /// Reads the lines `slave0:ip=…,port=…,state=online,offset=…,lag=…` of `INFO`.
    pub(super) fn list(info: &str) -> Vec<Self> {
        let offset = field(info, "master_repl_offset")
            .parse()
            .unwrap_or_default();
        let listed = info.lines().filter_map(|line| {
            let (number, fields) = line.strip_prefix("slave")?.split_once(':')?;
            let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| Self::parse(fields.trim(), offset))?
        });
        listed.take(MAX_LISTED).collect()
    }

    fn parse(fields: &str, master_offset: u64) -> Option<Self> {
        let field = |name: &str| {
            let mut fields = fields.split(',');
            fields.find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
        };
        let (ip, port) = (field("ip")?, field("port")?);
        let address = match ip.contains(':') {
            true => format!("[{ip}]:{port}"),
            false => format!("{ip}:{port}"),
        };
        let offset: u64 = field("offset").and_then(|offset| offset.parse().ok())?;
        let state: String = field("state")?.chars().take(MAX_CHARS).collect();
        let lag = field("lag").filter(|_| state == "online");
        Some(Self {
            address: address.chars().take(MAX_CHARS).collect(),
            state,
            behind_bytes: master_offset.saturating_sub(offset),
            lag_s: lag.and_then(|lag| lag.parse().ok()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_replica_has_its_address_its_state_and_how_far_it_is_behind() {
        let info = "# Replication\r\nrole:master\r\nconnected_slaves:3\r\n\
            slave0:ip=10.0.0.2,port=6379,state=online,offset=900,lag=1,type=replica\r\n\
            slave1:ip=::1,port=6380,state=send_bulk,offset=0,lag=0\r\n\
            slave2:ip=10.0.0.3,port=6379,state=online,offset=1001,lag=0,io-thread=0\r\n\
            slave_read_only:1\r\nslavex:ip=1,port=1,state=online,offset=1,lag=1\r\n\
            slave3:garbage\r\nmaster_repl_offset:1000\r\n";
        let replica = |address: &str, state: &str, behind_bytes, lag_s| Replica {
            address: address.to_owned(),
            state: state.to_owned(),
            behind_bytes,
            lag_s,
        };
        let replicas = Replica::list(info);
        assert_eq!(
            replicas,
            [
                replica("10.0.0.2:6379", "online", 100, Some(1)),
                replica("[::1]:6380", "send_bulk", 1000, None),
                replica("10.0.0.3:6379", "online", 0, Some(0)),
            ]
        );
        let online = replicas.iter().filter(|replica| replica.is_online());
        assert_eq!(online.count(), 2);
    }

    #[test]
    fn a_list_is_short_whatever_the_server_says() {
        let line = |n| {
            format!(
                "slave{n}:ip={0},port=1,state={0},offset=0\n",
                "x".repeat(999)
            )
        };
        let info: String = (0..100).map(line).collect();
        let replicas = Replica::list(&info);
        assert_eq!(replicas.len(), MAX_LISTED);
        assert_eq!(replicas[0].address, "x".repeat(MAX_CHARS));
        assert_eq!(replicas[0].state, "x".repeat(MAX_CHARS));
    }
}

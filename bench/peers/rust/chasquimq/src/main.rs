//! ChasquiMQ 1.3.0, the newest. It needs Redis 8.6: XADD IDMP (8.6), XREADGROUP CLAIM (8.4) and
//! XACKDEL (8.2) are in the one path that every job takes. No older release needs less: 1.0.0 to
//! 1.2.0, all that were published, send the same commands and ask for Redis 8.6+ in their
//! READMEs. Valkey 9.1 has none of the three and Redis 8.2 only the last; there the first XADD is
//! refused, and `enqueue` says so. The server to run it on is Redis 8.6.3 of Debian experimental.
//!
//! `enqueue`: `add_bulk`, a pipeline of 1,000 XADDs a call.
//! `count`: the settings of its own benchmark (`chasquimq-bench`, `worker-concurrent`), and no
//! events. Results are not stored by default.
//! `hold`: the README as it is: XREADGROUP claims by itself what has been pending for 30 s. Nothing
//! renews that, so a job that lasts longer is begun a second time while its worker is still alive.

use bytes::Bytes;
use chasquimq::{Consumer, ConsumerConfig, Job, Producer, ProducerConfig};
use contract::{Command, Result};
use tokio_util::sync::CancellationToken;

const QUEUE: &str = "bench";

#[tokio::main]
async fn main() -> Result {
    match contract::command()? {
        Command::Enqueue { url, count, size } => {
            let config = ProducerConfig {
                queue_name: QUEUE.into(),
                ..Default::default()
            };
            let producer = Producer::<String>::connect(&url, config).await?;
            for texts in contract::bulks(count, size, 1000) {
                producer.add_bulk(texts).await?;
            }
            Ok(())
        }
        Command::Count { url } => {
            let config = ConsumerConfig {
                queue_name: QUEUE.into(),
                concurrency: 100,
                batch: 256,
                ack_idle_ms: 2,
                events_enabled: false,
                ..Default::default()
            };
            let consumer = Consumer::<String>::new(url, config);
            let count = |_job: Job<String>| async {
                contract::done();
                Ok(Bytes::new())
            };
            contract::ready();
            Ok(consumer.run(count, CancellationToken::new()).await?)
        }
        Command::Hold { url } => {
            let config = ConsumerConfig {
                queue_name: QUEUE.into(),
                ..Default::default()
            };
            let consumer = Consumer::<String>::new(url, config);
            let hold = |_job: Job<String>| async {
                contract::hold().await;
                Ok(Bytes::new())
            };
            contract::ready();
            Ok(consumer.run(hold, CancellationToken::new()).await?)
        }
    }
}

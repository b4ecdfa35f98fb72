//! Packs that wait in another partition than their own.
//!
//! A generator gives what its source makes to one partition at a time, and goes on to the next when Redis
//! has it. If the server of that partition does not answer, the generator parks the packs in another
//! partition, behind its fence, and goes on. A successor finds them there when it has sealed all
//! partitions, and publishes those that their own partition lacks.

use super::{Store, decode};
use crate::encoding::parcel::Parcel;
use crate::{Error, scripts};

/// The answer to a park.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Park {
    /// Written, or removed.
    Ok,
    /// Nothing written: another generator has sealed.
    Fenced {
        /// That generator.
        node: String,
        /// Its epoch.
        epoch: u64,
    },
}

impl Store {
    /// Parks packs of other partitions here.
    pub async fn park(&self, epoch: u64, parcels: &[Parcel]) -> Result<Park, Error> {
        let pairs = parcels.iter();
        let pairs = pairs.map(|parcel| {
            let field = Parcel::field(parcel.partition, parcel.first);
            (field, parcel.encode())
        });
        self.set_parked(epoch, pairs.collect()).await
    }

    /// Removes packs that their own partition has.
    pub async fn unpark(&self, epoch: u64, fields: &[String]) -> Result<Park, Error> {
        let pairs = fields.iter().map(|field| (field.clone(), Vec::new()));
        self.set_parked(epoch, pairs.collect()).await
    }

    async fn set_parked(&self, epoch: u64, pairs: Vec<(String, Vec<u8>)>) -> Result<Park, Error> {
        let (keys, era, epoch) = (&self.keys, self.era(), epoch.to_string());
        let mut args: Vec<&[u8]> = vec![self.node.as_bytes(), epoch.as_bytes()];
        for (field, bytes) in &pairs {
            args.extend([field.as_bytes(), bytes]);
        }
        let names = [&keys.fence, &keys.parked];
        let answer = decode::park(&self.eval(&scripts::PARK, &names, &args).await?)?;
        if answer == Park::Ok {
            self.confirm(era).await?;
        }
        Ok(answer)
    }

    /// The packs that are parked here. What no generator wrote is passed over.
    pub async fn parked(&self) -> Result<Vec<Parcel>, Error> {
        let mut command = redis::cmd("HGETALL");
        command.arg(&self.keys.parked);
        let answer = self.link.call(&command).await;
        decode::parked(&self.name_wrong_type(answer).await?)
    }
}

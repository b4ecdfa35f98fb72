//! File descriptors that a node sends to its supervisor: those of one command.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Descriptors of one command: stdin, stdout, stderr and the leash.
pub(crate) const COUNT: usize = 4;

/// Sends the descriptors of one command. They travel with one byte, so that the receiver of one byte
/// has all of them.
pub(crate) fn send(socket: impl AsFd, descriptors: &[BorrowedFd<'_>; COUNT]) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(COUNT))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Errno::NOBUFS);
    }
    sendmsg(
        socket,
        &[IoSlice::new(b"c")],
        &mut control,
        SendFlags::NOSIGNAL,
    )?;
    Ok(())
}

/// Receives the descriptors of one command. None at the end of the stream.
pub(crate) fn receive(socket: impl AsFd) -> Result<Option<[OwnedFd; COUNT]>, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(COUNT))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut slices = [IoSliceMut::new(&mut byte)];
    let received = recvmsg(socket, &mut slices, &mut control, RecvFlags::empty())?;
    let mut descriptors = Vec::with_capacity(COUNT);
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(sent) = message {
            descriptors.extend(sent);
        }
    }
    for descriptor in &descriptors {
        // The commands that start from now on must not inherit it. The supervisor has one thread, so
        // none starts meanwhile.
        fcntl_setfd(descriptor, FdFlags::CLOEXEC)?;
    }
    match (received.bytes, descriptors.try_into()) {
        (0, _) => Ok(None),
        (_, Ok(all)) => Ok(Some(all)),
        // This process may open no more files.
        (_, Err(_)) => Err(Errno::MFILE),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Seek, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn each_command_has_its_own_descriptors_in_order_until_the_stream_ends() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let files: Vec<File> = (0..2 * COUNT)
            .map(|number| {
                let mut file = tempfile::tempfile().unwrap();
                file.write_all(&[number as u8]).unwrap();
                file.rewind().unwrap();
                file
            })
            .collect();
        for four in files.chunks(COUNT) {
            let four: Vec<BorrowedFd<'_>> = four.iter().map(AsFd::as_fd).collect();
            send(&ours, four[..].try_into().unwrap()).unwrap();
        }
        drop(ours);
        for command in 0..2 {
            for (place, fd) in receive(&theirs).unwrap().unwrap().into_iter().enumerate() {
                let flags = rustix::io::fcntl_getfd(&fd).unwrap();
                assert_eq!(flags, FdFlags::CLOEXEC);
                let mut bytes = Vec::new();
                File::from(fd).read_to_end(&mut bytes).unwrap();
                assert_eq!(bytes, [(command * COUNT + place) as u8]);
            }
        }
        assert!(receive(&theirs).unwrap().is_none());
    }
}

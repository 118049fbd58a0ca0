//! A content on its way out, a piece at a time: the next is read when the last was taken.

use bytes::Bytes;
use futures_util::{Stream, stream};
use std::fs::File;
use std::io::{self, SeekFrom};
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};

/// From an offset on to the end that it had when it was opened.
pub(crate) fn pieces(
    file: File,
    (offset, size): (u64, u64),
    most: usize,
) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    let from = Some((tokio::fs::File::from_std(file), offset, false));
    stream::unfold(from, move |from| async move {
        let (mut file, at, begun) = from?;
        if at >= size {
            return None;
        }
        let read = async {
            if !begun {
                file.seek(SeekFrom::Start(at)).await?;
            }
            let length = usize::try_from(size - at).unwrap_or(usize::MAX).min(most);
            file.set_max_buf_size(most);
            let mut piece = vec![0; length];
            file.read_exact(&mut piece).await.map(|_| Bytes::from(piece))
        };
        match read.await {
            Ok(piece) => {
                let at = at + piece.len() as u64;
                Some((Ok(piece), Some((file, at, true))))
            }
            Err(error) => Some((Err(error), None)),
        }
    })
}

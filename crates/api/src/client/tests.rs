//! Which connections are opened, and when. What is said over them is tested with a server.

use super::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Answers whatever it is asked, and counts who comes.
async fn listen() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let came = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&came);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            counting.fetch_add(1, Ordering::AcqRel);
            tokio::spawn(answer(stream));
        }
    });
    (url, came)
}

async fn answer(mut stream: TcpStream) {
    let mut asked = [0; 4096];
    while stream.read(&mut asked).await.is_ok_and(|length| length > 0) {
        let text = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
        stream.write_all(text.as_bytes()).await.unwrap();
    }
}

#[tokio::test]
async fn streams_have_the_connections_that_were_opened_for_them() {
    let (url, came) = listen().await;
    let client = Client::new(&url, None, None).unwrap();
    client.open_two_ahead().await;
    let mut streams = Vec::new();
    for _ in 0..2 {
        let mut stream = client.stream("/").await.unwrap();
        assert_eq!(stream.next().await.unwrap().unwrap(), "ok");
        streams.push(stream);
    }
    assert_eq!(came.load(Ordering::Acquire), 2);
    client.stream("/").await.unwrap();
    assert_eq!(came.load(Ordering::Acquire), 3, "each has one of its own");
}

#[tokio::test]
async fn what_cannot_be_opened_ahead_is_told_to_who_needs_it() {
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", nobody.local_addr().unwrap());
    drop(nobody);
    let client = Client::new(&url, None, None).unwrap();
    client.open_two_ahead().await;
    let error = client.stream("/").await.unwrap_err();
    assert!(matches!(error, ClientError::Unreachable { .. }), "{error}");
}

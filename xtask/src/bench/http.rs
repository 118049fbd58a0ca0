//! The least HTTP client: one kept connection, requests with JSON, answers with a length. Made for
//! measuring, so it costs little itself; it knows only what Shipway's API answers.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

/// Where a server is and how to be let in, as its `server.json` says.
#[derive(Debug, Clone)]
pub(super) struct Door {
    address: String,
    token: String,
}

impl Door {
    pub(super) fn read(contact: &str) -> Result<Door> {
        let contact: Value = serde_json::from_str(contact).context("could not read a contact")?;
        let text = |key: &str| contact[key].as_str().map(ToOwned::to_owned);
        let (url, token) = text("url").zip(text("token")).context("a contact lacks something")?;
        let address = url.strip_prefix("http://").context("not a plain address")?.to_owned();
        Ok(Door { address, token })
    }

    /// The same server, for whoever has this token.
    pub(super) fn with_token(&self, token: &str) -> Door {
        Door { address: self.address.clone(), token: token.to_owned() }
    }

    pub(super) fn open(&self) -> Result<Client> {
        Ok(Client { door: self.clone(), stream: BufReader::new(self.connect()?) })
    }

    pub(super) fn connect(&self) -> Result<TcpStream> {
        let stream = TcpStream::connect(&self.address).context("could not reach the server")?;
        stream.set_nodelay(true).context("could not set up a connection")?;
        Ok(stream)
    }

    pub(super) fn request(&self, method: &str, path: &str, body: &str) -> String {
        let Door { address, token } = self;
        format!(
            "{method} {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
    }
}

#[derive(Debug)]
pub(super) struct Client {
    door: Door,
    stream: BufReader<TcpStream>,
}

impl Client {
    pub(super) fn get(&mut self, path: &str) -> Result<Value> {
        self.ask("GET", path, "")
    }

    pub(super) fn post(&mut self, path: &str, body: &Value) -> Result<Value> {
        self.ask("POST", path, &body.to_string())
    }

    fn ask(&mut self, method: &str, path: &str, body: &str) -> Result<Value> {
        let request = self.door.request(method, path, body);
        self.stream.get_mut().write_all(request.as_bytes()).context("could not send a request")?;
        self.answer().with_context(|| format!("{method} {path}"))
    }

    fn answer(&mut self) -> Result<Value> {
        let mut line = String::new();
        self.stream.read_line(&mut line).context("could not read an answer")?;
        let good = line.split(' ').nth(1).is_some_and(|status| status.starts_with('2'));
        let status = line.trim().to_owned();
        let mut length = 0;
        loop {
            line.clear();
            self.stream.read_line(&mut line).context("could not read an answer")?;
            match line.trim().split_once(':') {
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.trim().parse().context("an answer without a good length")?;
                }
                Some(_) => {}
                None => break,
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).context("could not read an answer")?;
        if !good {
            bail!("the server said `{status}`: {}", String::from_utf8_lossy(&body));
        }
        serde_json::from_slice(&body).context("an answer that is not JSON")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn requests_go_over_one_connection_and_refusals_are_quoted() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("one connection");
            for answer in ["200 OK\r\ncontent-length: 2\r\n\r\n{}", "404 No\r\n\r\n"] {
                let mut some = [0; 1024];
                assert!(stream.read(&mut some).expect("a request") > 0);
                write!(stream, "HTTP/1.1 {answer}").expect("an answer");
            }
        });
        let contact = format!(r#"{{"url": "http://{address}", "token": "t"}}"#);
        let mut client = Door::read(&contact).and_then(|door| door.open()).expect("it is there");
        assert_eq!(client.get("/a").expect("an answer"), serde_json::json!({}));
        let refused = client.get("/b").expect_err("it is refused");
        assert!(format!("{refused:#}").contains("404 No"), "{refused:#}");
        server.join().expect("the server is content");
    }
}

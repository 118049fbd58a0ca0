//! A node that reaches one address of this machine and nothing else: a network namespace with one
//! end of a cable whose other end is here.

use crate::common::cannot;
use std::process::Command;

pub(crate) struct Node {
    name: String,
    cable: String,
    /// This machine's end.
    pub(crate) here: String,
}

fn ip(words: &[&str]) -> bool {
    let done = Command::new("ip").args(words).output();
    done.is_ok_and(|done| done.status.success())
}

impl Node {
    /// `None`: not on this machine, which is said.
    pub(crate) fn make(number: u8) -> Option<Node> {
        if !rustix::process::geteuid().is_root() {
            cannot("a network namespace needs root");
            return None;
        }
        let name = format!("shipway-{}-{number}", std::process::id());
        let cable = format!("sw{}x{number}", std::process::id());
        // One of the networks that are for tests between machines, four addresses of it.
        let third = std::process::id() % 250;
        let at = |last: u8| format!("198.18.{third}.{}", number * 4 + last);
        let node = Node { here: at(1), name: name.clone(), cable: cable.clone() };
        if !ip(&["netns", "add", &name]) {
            cannot("network namespaces cannot be made here (`ip netns add`)");
            return None;
        }
        let far = format!("{cable}n");
        let (here, there) = (format!("{}/30", at(1)), format!("{}/30", at(2)));
        let made = ip(&["link", "add", &cable, "type", "veth", "peer", "name", &far])
            && ip(&["link", "set", &far, "netns", &name])
            && ip(&["addr", "add", &here, "dev", &cable])
            && ip(&["link", "set", &cable, "up"])
            && ip(&["-n", &name, "addr", "add", &there, "dev", &far])
            && ip(&["-n", &name, "link", "set", &far, "up"]);
        if !made {
            cannot("a cable between two network namespaces cannot be made here (veth)");
            return None;
        }
        Some(node)
    }

    /// What starts a program there. Of the machine it has all but the network.
    pub(crate) fn by(&self) -> Vec<String> {
        ["nsenter".into(), format!("--net=/var/run/netns/{}", self.name)].into()
    }

    /// Whether a program there can connect to an address.
    pub(crate) fn reaches(&self, address: &str) -> bool {
        let path = address.replace(':', "/");
        let [first, net] = &self.by()[..] else { return false };
        let mut bash = Command::new(first);
        bash.args([net, "bash", "-c", &format!("exec 3<>/dev/tcp/{path}")]);
        bash.output().expect("bash").status.success()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        ip(&["link", "del", &self.cable]);
        ip(&["netns", "del", &self.name]);
    }
}

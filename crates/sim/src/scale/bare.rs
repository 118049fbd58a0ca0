//! The least any scheduler has to do: for each shape, walk all nodes and put on each what fits.
//! No users, no order, no devices by name, no reservations; it is what the real one is measured by.

use super::cluster::kind_at;
use super::workload::resources;

#[derive(Debug, Clone, Copy)]
struct Node {
    cpus: u64,
    memory: u64,
    gpus: u32,
    model: usize,
}

#[derive(Debug, Clone, Copy)]
struct Shape {
    cpus: u64,
    memory: u64,
    gpus: u32,
    /// The models that will do, a bit each.
    models: u32,
    waiting: u32,
}

const MODELS: [&str; 7] =
    ["", "Tesla T4", "Tesla V100", "NVIDIA A100", "NVIDIA L40S", "NVIDIA H100", "NVIDIA H200"];

#[derive(Debug)]
pub struct Bare {
    nodes: Vec<Node>,
    shapes: Vec<Shape>,
}

impl Bare {
    pub fn new(nodes: u32, shapes: u32, waiting_each: u32) -> Bare {
        let node = |at| {
            let kind = kind_at(at);
            let model = MODELS.iter().position(|model| *model == kind.model).unwrap_or(0);
            Node {
                cpus: kind.cpus * 1_000,
                memory: kind.memory_gb * 1_000_000_000,
                gpus: kind.gpus,
                model,
            }
        };
        let shape = |at| {
            let need = resources(at);
            let wanted = need.gpu.as_ref().map(|gpu| gpu.models.clone()).unwrap_or_default();
            let matches = |model: &str| {
                let model = model.to_lowercase();
                wanted.is_empty() || wanted.iter().any(|wanted| model.contains(wanted.as_str()))
            };
            let bits = MODELS.iter().enumerate().filter(|(_, model)| matches(model));
            Shape {
                cpus: need.cpus.milli,
                memory: need.memory.0,
                gpus: need.gpu.map_or(0, |gpu| gpu.count),
                models: bits.fold(0, |bits, (at, _)| bits | 1 << at),
                waiting: waiting_each,
            }
        };
        Bare { nodes: (0..nodes).map(node).collect(), shapes: (0..shapes).map(shape).collect() }
    }

    /// How many were placed.
    pub fn pass(&mut self) -> u64 {
        let mut placed = 0;
        for shape in &mut self.shapes {
            for node in &mut self.nodes {
                while shape.waiting > 0 && fits(shape, node) {
                    node.cpus -= shape.cpus;
                    node.memory -= shape.memory;
                    node.gpus -= shape.gpus;
                    shape.waiting -= 1;
                    placed += 1;
                }
            }
        }
        placed
    }
}

fn fits(shape: &Shape, node: &Node) -> bool {
    shape.cpus <= node.cpus
        && shape.memory <= node.memory
        && shape.gpus <= node.gpus
        && (shape.gpus == 0 || shape.models >> node.model & 1 == 1)
}

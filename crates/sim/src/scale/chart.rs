//! Lines over time as SVG: enough for a document, readable on light and dark pages.

use std::fmt::Write as _;

const WIDTH: u64 = 720;
const HEIGHT: u64 = 300;
const LEFT: u64 = 60;
const BOTTOM: u64 = 40;
const TOP: u64 = 40;
const RIGHT: u64 = 20;
/// Told apart by people who see few colours, and by their dashes.
const INKS: [(&str, &str); 4] =
    [("#0072b2", "none"), ("#d55e00", "6 3"), ("#009e73", "2 3"), ("#cc79a7", "8 3 2 3")];
/// More points than this are not seen.
const MAX_POINTS: usize = 700;

#[derive(Debug)]
pub struct Line {
    pub name: &'static str,
    pub points: Vec<(u64, u64)>,
}

#[derive(Debug)]
pub struct Chart {
    pub title: &'static str,
    pub across: &'static str,
    pub up: &'static str,
    pub top: u64,
    pub lines: Vec<Line>,
}

impl Chart {
    pub fn svg(&self) -> String {
        let last = self.lines.iter().filter_map(|line| line.points.last()).map(|(at, _)| *at).max();
        let last = last.unwrap_or(1).max(1);
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n\
             <text x=\"{LEFT}\" y=\"20\" font-size=\"14\">{}</text>\n",
            self.title
        );
        self.axes(&mut out, last);
        for (line, (ink, dash)) in self.lines.iter().zip(INKS) {
            let step = line.points.len().div_ceil(MAX_POINTS).max(1);
            let points = line.points.iter().step_by(step);
            let points: Vec<String> = points
                .map(|(at, value)| format!("{},{}", across(*at, last), up(*value, self.top)))
                .collect();
            let _ = writeln!(
                out,
                "<polyline fill=\"none\" stroke=\"{ink}\" stroke-width=\"1.5\" \
                 stroke-dasharray=\"{dash}\" points=\"{}\"/>",
                points.join(" ")
            );
        }
        self.legend(&mut out);
        out.push_str("</svg>\n");
        out
    }

    fn axes(&self, out: &mut String, last: u64) {
        for part in 0..=4 {
            let value = self.top * part / 4;
            let y = up(value, self.top);
            let _ = writeln!(
                out,
                "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{y}\" y2=\"{y}\" stroke=\"#dddddd\"/>\
                 <text x=\"{}\" y=\"{}\" text-anchor=\"end\">{value}</text>",
                WIDTH - RIGHT,
                LEFT - 6,
                y + 4
            );
            let at = last * part / 4;
            let _ = writeln!(
                out,
                "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{at}</text>",
                across(at, last),
                HEIGHT - BOTTOM + 16
            );
        }
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n\
             <text x=\"{LEFT}\" y=\"34\" fill=\"#555555\">{}</text>",
            LEFT + (WIDTH - LEFT - RIGHT) / 2,
            HEIGHT - 6,
            self.across,
            self.up
        );
    }

    fn legend(&self, out: &mut String) {
        for ((line, (ink, dash)), at) in self.lines.iter().zip(INKS).zip(0u64..) {
            let y = TOP + 14 + at * 16;
            let x = WIDTH - RIGHT - 170;
            let _ = writeln!(
                out,
                "<line x1=\"{x}\" x2=\"{}\" y1=\"{y}\" y2=\"{y}\" stroke=\"{ink}\" \
                 stroke-width=\"2\" stroke-dasharray=\"{dash}\"/><text x=\"{}\" y=\"{}\">{}</text>",
                x + 24,
                x + 30,
                y + 4,
                line.name
            );
        }
    }
}

fn across(at: u64, last: u64) -> u64 {
    LEFT + at * (WIDTH - LEFT - RIGHT) / last
}

fn up(value: u64, top: u64) -> u64 {
    HEIGHT - BOTTOM - value.min(top) * (HEIGHT - TOP - BOTTOM) / top.max(1)
}

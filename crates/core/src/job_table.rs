//! Jobs by id. Ids are given out in order and nearly all of a page live and leave together, so a
//! page of neighbours costs what its jobs cost, and stands where its number says.

use crate::job::Job;
use shipway_model::JobId;
use std::collections::VecDeque;

const PAGE: u64 = 64;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct JobTable {
    /// In the order of their numbers. New ones come at the end and old ones leave at the front.
    pages: VecDeque<Page>,
    len: usize,
}

#[derive(Debug, Clone, PartialEq)]
struct Page {
    number: u64,
    jobs: Box<[Option<Job>]>,
    used: usize,
}

impl Page {
    fn new(number: u64) -> Page {
        Page { number, jobs: (0..PAGE).map(|_| None).collect(), used: 0 }
    }
}

fn place(id: JobId) -> (u64, usize) {
    (id.0 / PAGE, usize::try_from(id.0 % PAGE).unwrap_or(0))
}

impl JobTable {
    pub fn len(&self) -> usize {
        self.len
    }
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where a page stands, or would. Without gaps before it, it is as far from the first as its
    /// number; no page stands farther than that.
    fn find(&self, number: u64) -> Result<usize, usize> {
        let first = self.pages.front().map_or(number, |page| page.number);
        let guess = usize::try_from(number.saturating_sub(first)).unwrap_or(usize::MAX);
        if self.pages.get(guess).is_some_and(|page| page.number == number) {
            return Ok(guess);
        }
        self.pages.binary_search_by_key(&number, |page| page.number)
    }

    pub fn get(&self, id: JobId) -> Option<&Job> {
        let (number, at) = place(id);
        self.pages.get(self.find(number).ok()?)?.jobs.get(at)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, id: JobId) -> Option<&mut Job> {
        let (number, at) = place(id);
        let page = self.find(number).ok()?;
        self.pages.get_mut(page)?.jobs.get_mut(at)?.as_mut()
    }

    pub fn contains(&self, id: JobId) -> bool {
        self.get(id).is_some()
    }

    pub(crate) fn insert(&mut self, id: JobId, job: Job) {
        let (number, at) = place(id);
        let page = self.find(number).unwrap_or_else(|page| {
            self.pages.insert(page, Page::new(number));
            page
        });
        let Some(page) = self.pages.get_mut(page) else { return };
        if page.jobs.get_mut(at).is_some_and(|place| place.replace(job).is_none()) {
            page.used += 1;
            self.len += 1;
        }
    }

    pub(crate) fn remove(&mut self, id: JobId) -> Option<Job> {
        let (number, at) = place(id);
        let found = self.find(number).ok()?;
        let page = self.pages.get_mut(found)?;
        let job = page.jobs.get_mut(at)?.take()?;
        page.used -= 1;
        self.len -= 1;
        if page.used == 0 {
            self.pages.remove(found);
        }
        Some(job)
    }

    /// In the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = (JobId, &Job)> {
        self.pages.iter().flat_map(|page| {
            let ids = (page.number * PAGE..).map(JobId);
            ids.zip(&page.jobs).filter_map(|(id, job)| Some((id, job.as_ref()?)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::tests::plain;

    #[test]
    fn jobs_come_and_go_and_pages_with_them() {
        let mut table = JobTable::default();
        for id in [1, 63, 64, 1_000_000_000_000] {
            table.insert(JobId(id), plain());
        }
        table.insert(JobId(64), plain());
        assert_eq!((table.len(), table.pages.len()), (4, 3));
        let ids: Vec<u64> = table.iter().map(|(id, _)| id.0).collect();
        assert_eq!(ids, [1, 63, 64, 1_000_000_000_000]);
        assert!(table.get(JobId(2)).is_none() && table.contains(JobId(63)));
        assert!(table.remove(JobId(64)).is_some() && table.remove(JobId(64)).is_none());
        assert_eq!((table.len(), table.pages.len()), (3, 2));
    }

    /// A million waiting jobs have to fit; see the goal in `docs/internals/measuring.md`.
    #[test]
    fn a_waiting_job_is_small() {
        assert!(size_of::<Option<Job>>() <= 128, "{}", size_of::<Option<Job>>());
    }
}

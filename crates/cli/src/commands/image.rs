//! `image`: pull, list, show and remove images in the store of this machine.

use crate::args::image::{ImageCommand, StoreArgs};
use crate::build_spec;
use crate::failure::{Exit, Failure};
use crate::settings::{self, Output, SettingsError};
use crate::view::fetching::Fetching;
use crate::view::images::{ClearedView, ImageDetail, ImageTable, PulledView, Row};
use crate::view::time::Reader;
use crate::view::{self, talk};
use shipway_images::pull::{LOGINS, Pull, Settings};
use shipway_images::store::{Cleared, Keep, StoreError};
use shipway_images::{Holder, Store};
use shipway_model::ImageRef;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub fn run(command: ImageCommand, output: Output) -> Result<Exit, Failure> {
    match command {
        ImageCommand::Pull { reference, credentials, insecure, store } => {
            // The option stands before the variable.
            let file = |name| credentials.clone().filter(|_| name == LOGINS).map(OsString::from);
            let lookup = |name| file(name).or_else(|| settings::environment(name));
            let mut settings = Settings::of(lookup)?;
            settings.insecure.extend(insecure);
            pull(&absolute(reference)?, &settings, &directory(&store)?, output)?;
        }
        ImageCommand::List { store } => list(&directory(&store)?, output)?,
        ImageCommand::Show { image, store } => show(&image, &directory(&store)?, output)?,
        ImageCommand::Rm { images, store } => remove(&images, &directory(&store)?, output)?,
        ImageCommand::Gc { unused_for, max_size, store } => {
            let keep = Keep { used_within: unused_for, at_most: max_size };
            let holder = Holder::begin(&Store::open(&directory(&store)?)?)?;
            let cleared = holder.collect(keep, settings::now())?;
            view::show(&ClearedView { cleared }, output)?;
        }
    }
    Ok(Exit::DONE)
}

fn directory(args: &StoreArgs) -> Result<PathBuf, SettingsError> {
    match &args.store {
        Some(dir) => Ok(dir.clone()),
        None => Ok(settings::home(&settings::environment)?.join("images")),
    }
}

/// Files are named as seen from anywhere: the name is remembered.
pub(super) fn absolute(reference: ImageRef) -> Result<ImageRef, Failure> {
    Ok(build_spec::absolute(reference, &std::env::current_dir())?)
}

fn pull(
    reference: &ImageRef,
    settings: &Settings,
    dir: &Path,
    output: Output,
) -> Result<(), Failure> {
    let store = Store::create(dir)?;
    let holder = Holder::begin(&store)?;
    let progress = Fetching::new(reference);
    let pull = Pull { holder: &holder, settings, progress: &progress, now: settings::now() };
    let done = pull.run(reference);
    progress.finish();
    let done = done?;
    let record = store.image(&done.image)?;
    let record = record.ok_or_else(|| StoreError::NoImage { name: done.image.to_string() })?;
    let what = if done.fetched { "pulled" } else { "already there" };
    talk::say(format_args!(
        "shipway: {what}: {reference}, {} files, {}",
        record.files, record.bytes
    ));
    let tree = store.tree(&done.image);
    let (image, fetched, reference) = (done.image, done.fetched, reference.clone());
    view::show(&PulledView { image, reference, fetched, tree, left_out: record.left_out }, output)
}

fn list(dir: &Path, output: Output) -> Result<(), Failure> {
    let reader = Reader::here();
    let mut images = Vec::new();
    match Store::open(dir) {
        // Nothing was ever pulled.
        Err(StoreError::NoStore { .. }) => {}
        Err(error) => return Err(error.into()),
        Ok(store) => {
            let names = store.names()?;
            for record in store.images()? {
                let named = names.iter().filter(|named| named.image == record.image);
                images.push(Row {
                    image: record.image,
                    names: named.map(|named| named.reference.clone()).collect(),
                    bytes: record.bytes,
                    files: record.files,
                    last_use: store.last_use(&record.image),
                });
            }
        }
    }
    images.sort_by_key(|row| std::cmp::Reverse(row.last_use));
    view::show(&ImageTable { images, reader }, output)
}

fn show(image: &str, dir: &Path, output: Output) -> Result<(), Failure> {
    let store = Store::open(dir)?;
    let image = store.find(&known_form(image)?)?;
    let none = || StoreError::NoImage { name: image.to_string() };
    let record = store.image(&image)?.ok_or_else(none)?;
    let names = store.names()?;
    let names = names.into_iter().filter(|named| named.image == image);
    let detail = ImageDetail {
        usage: store.usage(&record)?,
        cuda: record.config.cuda().map(str::to_owned),
        names: names.map(|named| named.reference).collect(),
        last_use: store.last_use(&image),
        tree: store.tree(&image),
        record,
        reader: Reader::here(),
    };
    view::show(&detail, output)
}

/// A reference to a file as `pull` remembered it; anything else as it was written.
fn known_form(text: &str) -> Result<String, Failure> {
    match text.parse::<ImageRef>() {
        Ok(reference) => Ok(absolute(reference)?.to_string()),
        Err(_) => Ok(text.to_owned()),
    }
}

fn remove(images: &[String], dir: &Path, output: Output) -> Result<(), Failure> {
    let store = Store::open(dir)?;
    let holder = Holder::begin(&store)?;
    let mut cleared = Cleared::default();
    for text in images {
        let image = store.find(&known_form(text)?)?;
        cleared.add(&holder.remove(&image)?);
    }
    view::show(&ClearedView { cleared }, output)
}

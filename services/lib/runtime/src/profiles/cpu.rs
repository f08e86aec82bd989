//! CPU time by function. A timer that counts the CPU time of the process interrupts whichever thread runs and notes its stack.

use std::{collections::HashMap, time::SystemTime};

use pprof::{ProfilerGuard, ProfilerGuardBuilder, Report, Symbol};

use super::{
    Error,
    encode::{Function, Label, Line, Location, Mapping, Profile, Sample, Strings, ValueType, gzip},
};

/// As Go's: often enough for one second to show something, and not in step with work that is done at round times.
const SAMPLES_PER_SECOND: i32 = 99;

pub(super) struct Sampling(ProfilerGuard<'static>);

impl Sampling {
    pub(super) fn start() -> Result<Self, Error> {
        match ProfilerGuardBuilder::default().frequency(SAMPLES_PER_SECOND).build() {
            Ok(guard) => Ok(Self(guard)),
            Err(pprof::Error::Running) => Err(Error::Running),
            Err(error) => Err(Error::failed(error)),
        }
    }

    /// Ends the sampling.
    pub(super) fn profile(self) -> Result<Vec<u8>, Error> {
        let report = self.0.report().build().map_err(Error::failed)?;
        drop(self);
        gzip(&encode(&report)).map_err(Error::failed)
    }
}

fn encode(report: &Report) -> Profile {
    let nanoseconds_each = 1_000_000_000 / i64::from(report.timing.frequency);
    let mut strings = Strings::default();
    let cpu = ValueType { kind: strings.index("cpu"), unit: strings.index("nanoseconds") };
    let samples = ValueType { kind: strings.index("samples"), unit: strings.index("count") };
    let thread = strings.index("thread");
    let program = std::env::current_exe().unwrap_or_default();
    let mut profile = Profile {
        sample_type: vec![samples, cpu],
        mapping: vec![Mapping {
            id: 1,
            filename: strings.index(&program.to_string_lossy()),
            has_functions: true,
            has_filenames: true,
            has_line_numbers: true,
            has_inline_frames: true,
        }],
        time_nanos: nanoseconds(
            report.timing.start_time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default(),
        ),
        duration_nanos: nanoseconds(report.timing.duration),
        period_type: Some(cpu),
        period: nanoseconds_each,
        ..Profile::default()
    };
    let mut locations = HashMap::new();
    for (stack, count) in &report.data {
        let count = i64::try_from(*count).unwrap_or(i64::MAX);
        let location_id = stack
            .frames
            .iter()
            .map(|inlined| location(inlined, &mut locations, &mut strings, &mut profile))
            .collect();
        let name = Label { key: thread, text: strings.index(&stack.thread_name_or_id()) };
        let value = vec![count, count.saturating_mul(nanoseconds_each)];
        profile.sample.push(Sample { location_id, value, label: vec![name] });
    }
    profile.string_table = strings.table();
    profile
}

fn nanoseconds(duration: std::time::Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// One address of a stack: a function, and before it those that the compiler inlined there, innermost first.
fn location(
    inlined: &[Symbol],
    known: &mut HashMap<Vec<(i64, i64, i64)>, u64>,
    strings: &mut Strings,
    profile: &mut Profile,
) -> u64 {
    let key: Vec<_> = inlined
        .iter()
        .map(|each| {
            let file = each.filename.as_ref().map_or(0, |_| strings.index(&each.filename()));
            (strings.index(&each.name()), file, i64::from(each.lineno()))
        })
        .collect();
    if let Some(id) = known.get(&key) {
        return *id;
    }
    let id = known.len() as u64 + 1;
    let line = key
        .iter()
        .map(|(name, file, line)| {
            let function_id = profile.function.len() as u64 + 1;
            profile.function.push(Function {
                id: function_id,
                name: *name,
                system_name: *name,
                filename: *file,
            });
            Line { function_id, line: *line }
        })
        .collect();
    profile.location.push(Location { id, mapping_id: 1, line });
    known.insert(key, id);
    id
}

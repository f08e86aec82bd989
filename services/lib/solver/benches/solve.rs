//! Micro-benchmarks for trends: plans from nothing, what-ifs on a snapshot, and building one. The table of bars, with the
//! reference beside it, is `solver-bench`'s.

#[path = "../tests/scenario/mod.rs"]
mod scenario;

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use scenario::catalogue::families;
use scenario::generate::{benchmark_mix, dense_cluster, deployments, teams};
use solver::{Effort, Options, Snapshot};

fn plans(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("plan");
    group.sample_size(10);
    for pods in [100, 1000, 10_000] {
        let input = deployments(pods, 50, families(), 42).to_input();
        group.bench_with_input(BenchmarkId::new("deployments", pods), &input, |bencher, input| {
            bencher.iter(|| {
                let snapshot = Snapshot::build(input.clone());
                black_box(solver::solve(&snapshot, &Options::default(), &|| true))
            });
        });
    }
    for pods in [100, 500] {
        let input = benchmark_mix(pods, 42).to_input();
        group.bench_with_input(BenchmarkId::new("mix", pods), &input, |bencher, input| {
            bencher.iter(|| {
                let snapshot = Snapshot::build(input.clone());
                black_box(solver::solve(&snapshot, &Options::default(), &|| true))
            });
        });
    }
    group.finish();
}

fn what_ifs(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("what-if");
    let options = Options { effort: Effort::Quick, ..Options::default() };
    for nodes in [100, 1000] {
        let snapshot = Snapshot::build(dense_cluster(nodes, 30, families(), 42).to_input());
        let ids: Vec<_> = snapshot.node_ids().collect();
        group.bench_function(BenchmarkId::new("one removal", nodes), |bencher| {
            let mut next = 0;
            bencher.iter(|| {
                next = (next + 1) % ids.len();
                black_box(solver::simulate(&snapshot, &[ids[next]], &[], &options, &|| true))
            });
        });
    }
    group.finish();
}

fn snapshots(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("snapshot");
    group.sample_size(10);
    let input = dense_cluster(1000, 30, families(), 42).to_input();
    group.bench_function("1000 nodes", |bencher| bencher.iter(|| black_box(Snapshot::build(input.clone()))));
    group.finish();
}

/// The second opinion on a plan of a thousand new nodes in twenty pools.
fn checks(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("check");
    group.sample_size(10);
    let (input, options) = (teams(5000, 200, 20).to_input(), Options::default());
    let plan = solver::solve(&Snapshot::build(input.clone()), &options, &|| true);
    let name = format!("5000 pods on {} new nodes", plan.new_nodes.len());
    group.bench_function(name, |bencher| {
        bencher.iter(|| black_box(solver::check::check(&input, &plan, &options)));
    });
    group.finish();
}

criterion_group!(benches, plans, what_ifs, snapshots, checks);
criterion_main!(benches);

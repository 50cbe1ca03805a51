//! Files that import each other, directly or indirectly.

use petgraph::{
    algo::{astar, tarjan_scc},
    graphmap::DiGraphMap,
};

use super::{graph::Imports, source::Path};

type Graph<'a> = DiGraphMap<&'a Path, ()>;

/// More than two files that all import each other, directly or indirectly.
pub(super) struct Knot<'a> {
    pub(super) files: Vec<&'a Path>,
    /// The shortest circle through each file, without repetitions.
    pub(super) circles: Vec<Vec<&'a Path>>,
}

pub(super) fn knots(imports: &Imports) -> Vec<Knot<'_>> {
    let each = imports.iter().flat_map(|(from, to)| to.keys().map(move |to| (from, to)));
    let graph: Graph<'_> = each.collect();
    let together = tarjan_scc(&graph).into_iter().filter(|files| files.len() > 2);
    let mut knots: Vec<_> = together.map(|files| knot(&graph, files)).collect();
    knots.sort_by_key(|knot| std::cmp::Reverse(knot.files.len()));
    knots
}

fn knot<'a>(graph: &Graph<'a>, mut files: Vec<&'a Path>) -> Knot<'a> {
    files.sort();
    let mut circles: Vec<_> = files.iter().filter_map(|file| shortest(graph, file)).collect();
    circles.sort_by_key(|circle| (circle.len(), circle.clone()));
    circles.dedup();
    Knot { files, circles }
}

/// The shortest circle from a file back to itself, starting with its first file in order.
fn shortest<'a>(graph: &Graph<'a>, file: &'a Path) -> Option<Vec<&'a Path>> {
    let back = |next| astar(graph, next, |at| at == file, |_| 1, |_| 0);
    let (_, mut circle) = graph.neighbors(file).filter_map(back).min_by_key(|(steps, _)| *steps)?;
    let first = circle.iter().enumerate().min_by_key(|(_, file)| **file).map(|(at, _)| at)?;
    circle.rotate_left(first);
    Some(circle)
}

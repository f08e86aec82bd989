//! Only what breaks a rule is held back.

use solver::Options;
use solver::check::{check, check_within, hold_back};

use crate::by_hand::{large, new_node, plan, pod_ref, small};
use crate::fixture::{cluster, pod, pool};

#[test]
fn a_node_that_breaks_a_rule_is_held_back_and_the_others_stay() {
    let input = cluster()
        .pool(pool("default").types(vec![small().build(), large().build()]))
        .pods(vec![pod("fits").cpu("1").build(), pod("huge").cpu("3").build()])
        .input();
    let both = plan(&input, vec![new_node(&["small"], &["fits"]), new_node(&["small"], &["huge"])], &[]);
    let options = Options::default();
    let violations = check(&input, &both, &options);
    let (kept, held) = hold_back(both.clone(), &violations);
    assert_eq!(kept.new_nodes, both.new_nodes[..1]);
    assert_eq!((kept.cost, kept.unreached), (both.new_nodes[0].launch.price, vec![pod_ref("huge")]));
    assert_eq!(held.len(), 1);
    assert!(held[0].pod == pod_ref("huge") && held[0].why.contains("cpu wanted"), "{held:?}");
}

#[test]
fn what_remains_of_a_plan_breaks_no_rule_by_itself() {
    let input = cluster()
        .pool(pool("default").types(vec![small().build()]).limit("cpu", "2"))
        .pool(pool("other").types(vec![small().build()]))
        .pods(vec![pod("a").cpu("1").build(), pod("b").cpu("1").build(), pod("c").cpu("1").build()])
        .input();
    let of_other = new_node(&["small"], &["c"]).but(|node| node.pool = "other".into());
    let all = plan(&input, vec![new_node(&["small"], &["a"]), new_node(&["small"], &["b"]), of_other], &[]);
    let options = Options::default();
    let (kept, held) = hold_back(all.clone(), &check(&input, &all, &options));
    assert_eq!(held.len(), 2, "both nodes of the pool beyond its limit: {held:?}");
    assert_eq!(kept.new_nodes.len(), 1);
    assert_eq!(check(&input, &kept, &options), []);
}

#[test]
fn a_check_that_runs_out_of_time_has_judged_single_nodes() {
    let input = cluster()
        .pool(pool("default").types(vec![small().build()]))
        .pods(vec![pod("huge").cpu("3").build()])
        .input();
    let plan = plan(&input, vec![new_node(&["small"], &["huge"])], &[]);
    let found = check_within(&input, &plan, &Options::default(), &|| false).unwrap_err();
    assert_eq!(found, check(&input, &plan, &Options::default()));
}

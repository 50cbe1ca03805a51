//! The calls by hand are a fair floor: they send what the crate sends.

use benches::cases;

#[tokio::test]
async fn each_case_comes_to_what_it_is_called_with_the_crate_and_by_hand() {
    let cases = cases::all().await.unwrap();
    assert_eq!(cases.len(), 17);
    for case in cases {
        (case.ours)().await.expect(&case.name);
        (case.bare)().await.expect(&case.name);
    }
}

#[tokio::test]
async fn the_calls_by_hand_send_the_same_records_on_the_same_conditions() {
    let [ours, bare] = cases::first_runs().await.unwrap();
    assert_eq!(ours.len(), 2);
    assert_eq!(ours, bare);
}

// Package answers has the answers of both the plugin (cmd/kubectl-attune) and the web page (ui), as values and as
// text. Their JSON is a contract with scripts. The package is pure: callers read objects and pass them in a View.
//
//   - display.go: amounts, tables and steps of a computation, for display and for scripts.
//   - explain.go, explain_live.go, explain_text.go: why a container has its target. Explain explains a workload in the
//     cluster, ExplainOffline recorded usage. The next resize step of a pod comes from the functions that the operator
//     uses (resize.TargetFrom, recommender.NextStep).
//   - blocked.go: which workloads and resources are blocked, and which policies need attention (ReadinessOf).
//   - node.go, node_stored.go, node_text.go: how pods share a node (strategy Node), with and without the
//     leader's answer.
//   - savings.go, savings_workload.go: the savings of targets, with the only formula, which the status of policies, the
//     metrics, the plugin and the page use. SavedOf applies it to one request, View.Compute to a workload and its pods.
//   - savings_report.go: the sums of these figures, per namespace and in total.
//   - version.go: the version of the program.
//   - removable.go: how many nodes the node autoscaler could remove (RemovableNodes).
//
// Start reading with Explain and View.
package answers

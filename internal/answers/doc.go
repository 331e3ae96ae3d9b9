// Package answers has the answers that the plugin (cmd/kubectl-attune) and the web page (ui) give alike, as values and as
// text. Their JSON is a contract with scripts. The package is pure: callers read objects and pass them in a View.
//
//   - display.go: amounts, tables and steps of a computation, as people and scripts read them.
//   - explain.go, explain_live.go, explain_text.go: why a container has its target. Explain takes a workload of the cluster,
//     ExplainOffline recorded usage. The next step of a pod comes from the functions that the operator plans with
//     (resize.TargetFrom, recommender.NextStep).
//   - blocked.go: which workloads and resources are blocked, and which policies need attention (ReadinessOf).
//   - node.go, node_stored.go, node_text.go: how pods share a node (strategy Node), with and without the leader's answer.
//   - savings.go, savings_workload.go: what targets save: one formula for the status of policies, the metrics, the plugin and
//     the page. SavedOf has it for one request, View.Compute for a workload and its running pods.
//   - savings_report.go: the sums of these figures, per namespace and in total.
//   - removable.go: how many nodes the node autoscaler could remove (RemovableNodes).
//
// Start reading with Explain and View.
package answers

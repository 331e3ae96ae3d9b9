package input

import (
	"fmt"
	"slices"
	"strings"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
)

// KindNames are the names that kubectl accepts for each kind, in lower case.
var KindNames = map[v1alpha1.WorkloadKind][]string{
	v1alpha1.KindDeployment:  {"deployment", "deployments", "deploy", "deployments.apps", "deployment.apps"},
	v1alpha1.KindStatefulSet: {"statefulset", "statefulsets", "sts", "statefulsets.apps", "statefulset.apps"},
	v1alpha1.KindDaemonSet:   {"daemonset", "daemonsets", "ds", "daemonsets.apps", "daemonset.apps"},
	v1alpha1.KindReplicaSet:  {"replicaset", "replicasets", "rs", "replicasets.apps", "replicaset.apps"},
	v1alpha1.KindJob:         {"job", "jobs", "jobs.batch", "job.batch"},
	v1alpha1.KindCronJob:     {"cronjob", "cronjobs", "cj", "cronjobs.batch", "cronjob.batch"},
	v1alpha1.KindRollout:     {"rollout", "rollouts", "ro", "rollouts.argoproj.io", "rollout.argoproj.io"},
}

// ParseWorkload parses KIND/NAME, such as deploy/web. Upper and lower case of the kind do not matter.
// The workload need not exist, nor a kind that is written KIND.GROUP. Errors say how a workload is written, or which kinds attune sizes.
func ParseWorkload(argument, namespace string) (workload.Identity, error) {
	spelled, name, found := strings.Cut(argument, "/")
	// A second slash is most likely NAMESPACE/KIND/NAME, which kubectl does not accept either.
	if !found || name == "" || strings.Contains(name, "/") {
		return workload.Identity{}, fmt.Errorf("%q names no workload: write KIND/NAME, e.g. deployment/web", argument)
	}
	kind, known := KindNamed(spelled)
	// How the objects of a kind that the operator's owner adds spell it, the API server knows (package selection).
	if !known && workload.IsScaled(v1alpha1.WorkloadKind(spelled)) {
		kind, known = v1alpha1.WorkloadKind(spelled), true
	}
	if !known {
		return workload.Identity{}, fmt.Errorf("%q in %q is no kind that attune sizes: use %s, or KIND.GROUP of the chart's value scaledKinds", spelled, argument, SizedKinds)
	}
	return workload.Identity{Kind: kind, Namespace: namespace, Name: name}, nil
}

// SizedKinds are the kinds that always are sized, for sentences.
const SizedKinds = "deployment, statefulset, daemonset, replicaset, job, cronjob or rollout"

// KindNamed returns the kind of a name that kubectl accepts. Upper and lower case do not matter.
func KindNamed(spelled string) (v1alpha1.WorkloadKind, bool) {
	// No spelling belongs to two kinds, so the order of the map does not matter.
	for kind, names := range KindNames {
		if slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, spelled) }) {
			return kind, true
		}
	}
	return "", false
}

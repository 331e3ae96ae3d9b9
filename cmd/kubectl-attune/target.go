package main

import (
	"errors"
	"fmt"
	"strings"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
)

// kindNames are the names that kubectl accepts for each kind, in lower case.
var kindNames = map[v1alpha1.WorkloadKind][]string{
	v1alpha1.KindDeployment:  {"deployment", "deployments", "deploy", "deployments.apps", "deployment.apps"},
	v1alpha1.KindStatefulSet: {"statefulset", "statefulsets", "sts", "statefulsets.apps", "statefulset.apps"},
	v1alpha1.KindDaemonSet:   {"daemonset", "daemonsets", "ds", "daemonsets.apps", "daemonset.apps"},
	v1alpha1.KindReplicaSet:  {"replicaset", "replicasets", "rs", "replicasets.apps", "replicaset.apps"},
	v1alpha1.KindJob:         {"job", "jobs", "jobs.batch", "job.batch"},
	v1alpha1.KindCronJob:     {"cronjob", "cronjobs", "cj", "cronjobs.batch", "cronjob.batch"},
}

// parseWorkload parses KIND/NAME, such as deploy/web. Upper and lower case of the kind do not matter.
// The workload need not exist. Errors say how a workload is written, or which kinds attune sizes.
func parseWorkload(argument, namespace string) (workload.Identity, error) {
	kind, name, found := strings.Cut(argument, "/")
	// A second slash is most likely NAMESPACE/KIND/NAME, which kubectl does not accept either.
	if !found || name == "" || strings.Contains(name, "/") {
		return workload.Identity{}, fmt.Errorf("%q names no workload: write KIND/NAME, e.g. deployment/web", argument)
	}
	// No spelling belongs to two kinds, so the order of the map does not matter.
	for known, names := range kindNames {
		for _, spelled := range names {
			if strings.EqualFold(kind, spelled) {
				return workload.Identity{Kind: known, Namespace: namespace, Name: name}, nil
			}
		}
	}
	return workload.Identity{}, fmt.Errorf("%q in %q is no kind that attune sizes: "+
		"use deployment, statefulset, daemonset, replicaset, job or cronjob", kind, argument)
}

// errNamedEverywhere refuses names together with -A: a name would be ambiguous.
var errNamedEverywhere = errors.New("a workload that is named is in one namespace: leave -A out and give the namespace with -n")

// parseWorkloads parses the workloads on a command line. All of them are in the namespace of -n.
func (e *environment) parseWorkloads(arguments []string) ([]workload.Identity, error) {
	if e.scope.all {
		return nil, errNamedEverywhere
	}
	namespace, err := e.namespace()
	if err != nil {
		return nil, err
	}
	named := make([]workload.Identity, 0, len(arguments))
	for _, argument := range arguments {
		id, err := parseWorkload(argument, namespace)
		if err != nil {
			return nil, err
		}
		named = append(named, id)
	}
	return named, nil
}

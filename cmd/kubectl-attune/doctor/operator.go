package doctor

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"

	"attune.io/attune/internal/answers"
)

// Selector and SelectorValue are the label of the chart's objects.
const Selector, SelectorValue = "app.kubernetes.io/name", "attune"

// component is the label that distinguishes the chart's programs.
const component, componentController = "app.kubernetes.io/component", "controller"

// operator checks the operator's Deployments and its leader.
func operator(seen *Seen, f *findings) {
	deployments := seen.Installed.Deployments
	if f.unreadable("Deployments in namespace "+seen.Scope.Operator, deployments.Err) {
		leads(seen, f)
		return
	}
	if len(deployments.Value) == 0 {
		f.add(Problem, upgrade(seen.Scope), "no Deployment of attune found in namespace %s: install the chart, or specify the operator's namespace with --operator-namespace", seen.Scope.Operator)
		return
	}
	names := replicas(deployments, f)
	controls(seen, names, f)
	leads(seen, f)
	f.fine("all replicas of %s are ready, and one is the leader", listed("Deployment", names))
}

// replicas checks that the replicas of each Deployment are ready, and returns the names of the Deployments.
func replicas(deployments Read[appsv1.Deployment], f *findings) (names []string) {
	for _, d := range deployments.all() {
		names = append(names, d.Name)
		wanted, ready := ptr.Deref(d.Spec.Replicas, 1), d.Status.ReadyReplicas
		describe := "kubectl describe deployment " + d.Name + " --namespace " + d.Namespace
		switch {
		case wanted == 0:
			f.add(Problem, "kubectl scale deployment "+d.Name+" --replicas 1 --namespace "+d.Namespace, "Deployment %s is scaled to 0", d.Name)
		case ready == 0:
			f.add(Problem, describe, "no replica of Deployment %s is ready", d.Name)
		case ready < wanted:
			f.add(Warning, describe, "%d of %d replicas of Deployment %s are ready", ready, wanted, d.Name)
		case d.Status.Replicas > d.Status.UpdatedReplicas || d.Status.ObservedGeneration < d.Generation:
			f.add(Warning, describe, "the rollout of Deployment %s is not complete: %d of its %d pods have the newest template. Its old pods are ready", d.Name, d.Status.UpdatedReplicas, d.Status.Replicas)
		}
	}
	return names
}

// controls checks that one of the Deployments is the controller, because the webhook may have its own Deployment.
func controls(seen *Seen, names []string, f *findings) {
	for _, d := range seen.Installed.Deployments.all() {
		if d.Labels[component] == componentController || d.Spec.Selector != nil && d.Spec.Selector.MatchLabels[component] == componentController {
			return
		}
	}
	f.add(Problem, upgrade(seen.Scope), "namespace %s has no Deployment of attune's controller, only %s: no workload is resized", seen.Scope.Operator, listed("Deployment", names))
}

// leads checks that a replica holds the lease now.
func leads(seen *Seen, f *findings) {
	in := " in namespace " + seen.Scope.Operator
	if f.unreadable("leases"+in, seen.Installed.Leases.Err) {
		return
	}
	logs := "kubectl logs --selector " + Selector + "=" + SelectorValue + " --namespace " + seen.Scope.Operator
	if len(seen.Installed.Leases.Value) == 0 {
		f.add(Problem, logs, "the operator has no leader: lease %s does not exist%s", answers.LeaseName, in)
		return
	}
	lease := &seen.Installed.Leases.Value[0]
	end, beat := endOf(lease), seen.heartbeat()
	switch {
	case seen.Installed.Renewed:
		f.add(Warning, "date -u", "the operator renews lease %s/%s, but the local clock shows %s and the lease %s: ages are wrong. Correct the clock",
			seen.Scope.Operator, answers.LeaseName, seen.Now.UTC().Format(time.RFC3339), lease.Spec.RenewTime.UTC().Format(time.RFC3339))
	case beat.State == answers.NotRunning:
		f.add(Problem, logs, "%s: attune does not measure, recommend, resize or restore", beat.Message)
	case answers.LeaderOf(lease) == "" || end.IsZero():
		f.add(Problem, logs, "the operator has no leader: lease %s has no holder%s", answers.LeaseName, in)
	case seen.Now.After(end):
		f.add(Problem, logs, "the operator has no leader: lease %s%s expired at %s; the local clock shows %s",
			answers.LeaseName, in, end.UTC().Format(time.RFC3339), seen.Now.UTC().Format(time.RFC3339))
	}
}

// heartbeat says whether the operator runs. Without a lease it does not run if its Deployments are there; otherwise it may
// be in another namespace.
func (s *Seen) heartbeat() answers.Heartbeat {
	leases := s.Installed.Leases
	beat := answers.HeartbeatOf(s.Scope.Operator, leases.pointer(), leases.Err, s.Installed.Renewed, s.Now)
	if leases.Err == nil && len(leases.Value) == 0 && len(s.Installed.Deployments.Value) > 0 {
		return answers.Heartbeat{State: answers.NotRunning, Message: "operator not running: lease " + s.Scope.Operator + "/" + answers.LeaseName + " does not exist"}
	}
	return beat
}

// endOf returns when a lease expires; the zero time if it does not say.
func endOf(lease *coordinationv1.Lease) time.Time {
	if lease.Spec.RenewTime == nil || lease.Spec.LeaseDurationSeconds == nil {
		return time.Time{}
	}
	return lease.Spec.RenewTime.Add(time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second)
}

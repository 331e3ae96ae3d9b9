package doctor

import (
	"k8s.io/utils/ptr"
)

// Selector finds what the chart installs by its label.
const Selector, SelectorValue = "app.kubernetes.io/name", "attune"

// operator looks at the operator's Deployments.
func operator(seen *Seen, f *findings) {
	deployments := seen.Installed.Deployments
	if f.unreadable("Deployments in namespace "+seen.Scope.Operator, deployments.Err) {
		return
	}
	if len(deployments.Value) == 0 {
		f.add(Problem, upgrade(seen.Scope), "there is no Deployment of attune in namespace %s: install the chart, or say where the operator is with --operator-namespace", seen.Scope.Operator)
		return
	}
	names := make([]string, 0, len(deployments.Value))
	for i := range deployments.Value {
		d := &deployments.Value[i]
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
		}
	}
	f.fine("all replicas of %s are ready", listed("Deployment", names))
}

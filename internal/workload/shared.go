package workload

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"attune.io/attune/api/v1alpha1"
)

// Workloads with the same identity share their usage history and targets. An identity is a label of the pod template,
// so that a pod has it at admission.
//
// Jobs of one identity are one workload: kind Job, name SharedName(identity), with the template of the newest Job. It
// has one recommendation, as a CronJob has one for all of its Jobs. Workloads of the other kinds keep their own
// recommendation, because each runs on its own.

// identityLabels have the identity, the first that is set. KEDA sets the second on the template of a ScaledJob's Jobs,
// Knative Serving the third on the template of each revision's Deployment.
var identityLabels = []string{v1alpha1.IdentityLabel, "scaledjob.keda.sh/name", "serving.knative.dev/configuration"}

// SharedIn returns the identity in the labels of a pod or template; empty: there is none, or it is not a label value.
func SharedIn(labels map[string]string) string {
	for _, label := range identityLabels {
		if value := labels[label]; value != "" {
			if len(value) <= maxLabelValue && len(validation.IsValidLabelValue(value)) == 0 {
				return value
			}
			return ""
		}
	}
	return ""
}

// IdentityLabels returns the labels that SharedIn reads; nil: there are none. The caches keep them.
func IdentityLabels(labels map[string]string) (out map[string]string) {
	for _, label := range identityLabels {
		if value, ok := labels[label]; ok && len(value) <= maxLabelValue {
			if out == nil {
				out = map[string]string{}
			}
			out[label] = value
		}
	}
	return out
}

// Shared returns the identity of the workload; empty: it shares nothing.
func (w Workload) Shared() string {
	if w.Template == nil || w.Part() {
		return ""
	}
	return SharedIn(w.Template.Labels)
}

// sharedPrefix begins the name of the workload that stands for the Jobs of an identity. No object's name has a colon.
const sharedPrefix = "identity:"

// SharedName returns the name of the workload that stands for the Jobs of an identity.
func SharedName(identity string) string { return sharedPrefix + identity }

func isSharedName(name string) bool { return strings.HasPrefix(name, sharedPrefix) }

// IsShared reports whether the identity stands for the Jobs of an identity.
func (i Identity) IsShared() bool { return i.Kind == v1alpha1.KindJob && isSharedName(i.Name) }

// RecommendedAs returns the identity under which the workload has a recommendation: for a Job with an identity that of
// all of its Jobs, otherwise its own.
func (w Workload) RecommendedAs() Identity {
	if shared := w.Shared(); shared != "" && w.Kind == v1alpha1.KindJob {
		return Identity{Kind: w.Kind, Namespace: w.Namespace, Name: SharedName(shared)}
	}
	return w.Identity
}

// AsShared returns a Job as the workload of its identity. It has no UID, because each Job has another, and it never
// ends. The receiver has an identity.
func (w Workload) AsShared() Workload {
	w.Identity, w.UID, w.Ended, w.OwnedBy = w.RecommendedAs(), "", false, Owner{}
	return w
}

// NewerJob reports whether a Job takes precedence over another as the template of their identity: it is newer, or of
// the same age and later by name.
func NewerJob(job, other metav1.Object) bool {
	a, b := job.GetCreationTimestamp().Time, other.GetCreationTimestamp().Time
	return a.After(b) || a.Equal(b) && job.GetName() > other.GetName()
}

// sharedObject returns the name of the object of an identity's recommendation. No workload's has this prefix, because
// no kind of workload is named Identity. Label values may differ only in characters that names of objects cannot have,
// so these end in a hash.
func sharedObject(kind v1alpha1.WorkloadKind, identity string) string {
	name := strings.NewReplacer("_", "-").Replace(strings.ToLower(identity))
	if name != identity || len(validation.IsDNS1123Subdomain(name)) > 0 {
		digest := sha256.Sum256([]byte(identity))
		name = strings.Trim(strings.ReplaceAll(name, ".", "-"), "-") + "-" + hex.EncodeToString(digest[:])[:10]
	}
	return "identity-" + strings.ToLower(string(kind)) + "-" + name
}

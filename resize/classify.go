package resize

import (
	"errors"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// OutcomeKind is the meaning of the API server's answer to a resize.
type OutcomeKind string

const (
	// OutcomeAccepted: the API server accepted the resize; the kubelet decides next.
	OutcomeAccepted OutcomeKind = "Accepted"
	// OutcomeGone: the pod no longer exists, or another pod has its name.
	OutcomeGone OutcomeKind = "Gone"
	// OutcomeConflict: read the pod and decide again; do not only repeat the write.
	OutcomeConflict OutcomeKind = "Conflict"
	// OutcomeTerminal: this resize of this pod will never be valid; do not send it again unchanged.
	OutcomeTerminal OutcomeKind = "Terminal"
	// OutcomeInfeasible: this node cannot provide the size; nothing was changed, and nothing needs to be restored.
	OutcomeInfeasible OutcomeKind = "Infeasible"
	// OutcomeTransient: nothing was changed; retry soon.
	OutcomeTransient OutcomeKind = "Transient"
	// OutcomePolicyRefusal: a quota, a LimitRange or an admission policy refused; retry much later.
	OutcomePolicyRefusal OutcomeKind = "PolicyRefusal"
	// OutcomeRBAC: attune may not resize pods; every resize fails until the permission is granted.
	OutcomeRBAC OutcomeKind = "RBAC"
	// OutcomeUnknown: the resize may or may not have been stored; read the pod first.
	OutcomeUnknown OutcomeKind = "Unknown"
)

// Causes in a 403 by which a node refuses a resize, in Kubernetes 1.36 and newer.
const (
	causeNodeCapacity        = metav1.CauseType("NodeCapacity")
	causeUnsupportedPlatform = metav1.CauseType("UnsupportedPlatform")
)

// Reasons of refusals that depend on a watched object.
const (
	refusedQuota       = "QuotaExceeded"
	refusedQuotaKeys   = "QuotaMustSpecify"
	refusedQuotaStatus = "QuotaStatusUnknown"
	refusedLimitRange  = "LimitRange"
)

// Outcome is the meaning of the API server's answer to a resize (Classify).
type Outcome struct {
	// Kind decides how the answer is handled.
	Kind OutcomeKind
	// Reason is one word for conditions, events, metrics and tries; empty if the resize was accepted.
	Reason string
	// Message is the API server's own text.
	Message string
	// RetryAfter is the wait before the same resize is sent again; 0: sending it again would change nothing.
	RetryAfter time.Duration
}

// Refused reports whether nothing was changed, so that the record of the resize can be closed. It is false for an
// unknown outcome: the resize may have been stored although its answer was lost.
func (o Outcome) Refused() bool {
	return o.Kind != OutcomeAccepted && o.Kind != OutcomeUnknown
}

// OfNode reports whether the answer applies to the pod's node for every size. A size above the node's capacity
// (NodeCapacity) does not rule out smaller sizes.
func (o Outcome) OfNode() bool {
	return o.Kind == OutcomeInfeasible && o.Reason != string(causeNodeCapacity)
}

// Passing reports whether the same resize may be accepted a moment later.
func (o Outcome) Passing() bool { return o.Kind == OutcomeConflict || o.Kind == OutcomeTransient }

// Waits before a resize is sent again.
const (
	soon  = 5 * time.Second
	later = 10 * time.Minute
)

// Classify returns the meaning of the answer to a patch of pods/resize.
func Classify(err error) Outcome {
	if err == nil {
		return Outcome{Kind: OutcomeAccepted}
	}
	outcome := classify(err)
	outcome.Message = err.Error()
	return outcome
}

// classify applies the checks in order: a refusal by an admission policy may have any code, so its text is checked
// before all codes. An unrecognized error counts as unanswered, since the resize may have been stored.
func classify(err error) Outcome {
	var status apierrors.APIStatus
	switch {
	case !errors.As(err, &status):
		return unanswered
	case deniedByPolicy(status.Status().Message):
		return admissionPolicy
	case apierrors.IsNotFound(err):
		return Outcome{Kind: OutcomeGone, Reason: "NotFound"}
	case apierrors.IsConflict(err):
		return Outcome{Kind: OutcomeConflict, Reason: "Conflict", RetryAfter: soon}
	case apierrors.IsInvalid(err):
		return invalid(status.Status())
	case apierrors.IsForbidden(err):
		return forbidden(status.Status())
	case apierrors.IsUnauthorized(err):
		return Outcome{Kind: OutcomeRBAC, Reason: "Unauthorized", RetryAfter: later}
	case apierrors.IsBadRequest(err), apierrors.IsMethodNotSupported(err), apierrors.IsUnsupportedMediaType(err):
		return Outcome{Kind: OutcomeTerminal, Reason: string(status.Status().Reason)}
	}
	return unanswered
}

// unanswered: the request was cut off, or the server was overloaded or broken. The resize may have been stored.
var unanswered = Outcome{Kind: OutcomeUnknown, Reason: "Unanswered", RetryAfter: soon}

// invalid: if the pod was replaced under the same name, the API server reports an immutable uid.
func invalid(status metav1.Status) Outcome {
	for _, cause := range ptr.Deref(status.Details, metav1.StatusDetails{}).Causes {
		if cause.Field == "metadata.uid" {
			return Outcome{Kind: OutcomeGone, Reason: "Replaced"}
		}
	}
	return Outcome{Kind: OutcomeTerminal, Reason: "Invalid"}
}

// forbidden distinguishes the refusals that share the code 403: a node without room, a server that is starting, an
// admission policy, and missing permissions. It checks causes first, since they are API; message texts may change
// between versions.
func forbidden(status metav1.Status) Outcome {
	for _, cause := range ptr.Deref(status.Details, metav1.StatusDetails{}).Causes {
		if cause.Type == causeNodeCapacity || cause.Type == causeUnsupportedPlatform {
			return Outcome{Kind: OutcomeInfeasible, Reason: string(cause.Type), RetryAfter: later}
		}
	}
	lacks := func(part string) bool { return !strings.Contains(status.Message, part) }
	for _, f := range forbiddenTexts {
		if !slices.ContainsFunc(f.parts, lacks) {
			return f.outcome
		}
	}
	return admissionPolicy
}

var admissionPolicy = Outcome{Kind: OutcomePolicyRefusal, Reason: "AdmissionPolicy", RetryAfter: later}

// deniedByPolicy reports whether an admission policy or webhook refused the request. Its author chooses the code of the
// answer, so only the text identifies it.
func deniedByPolicy(message string) bool {
	return strings.Contains(message, "ValidatingAdmissionPolicy '") && strings.Contains(message, " denied request") ||
		strings.Contains(message, "admission webhook \"") && strings.Contains(message, " denied the request")
}

// forbiddenTexts are checked in order. The texts are the API server's own; these refusals have no code.
var forbiddenTexts = []struct {
	parts   []string
	outcome Outcome
}{
	{[]string{"cannot patch resource"}, Outcome{Kind: OutcomeRBAC, Reason: "Forbidden", RetryAfter: later}},
	{[]string{"not yet ready to handle request"}, Outcome{Kind: OutcomeTransient, Reason: "NotReady", RetryAfter: soon}},
	{[]string{"node \"", "not found"}, Outcome{Kind: OutcomeTransient, Reason: "NodeNotFound", RetryAfter: soon}},
	{[]string{"status unknown for quota"}, Outcome{Kind: OutcomeTransient, Reason: refusedQuotaStatus, RetryAfter: soon}},
	{[]string{"didn't have enough allocatable resources"}, Outcome{Kind: OutcomeInfeasible, Reason: "NodeCapacity", RetryAfter: later}},
	{[]string{"requires features", "not available on node"}, Outcome{Kind: OutcomeInfeasible, Reason: "NodeFeature", RetryAfter: later}},
	{[]string{"exceeded quota"}, Outcome{Kind: OutcomePolicyRefusal, Reason: refusedQuota, RetryAfter: later}},
	{[]string{"failed quota"}, Outcome{Kind: OutcomePolicyRefusal, Reason: refusedQuotaKeys, RetryAfter: later}},
	{[]string{" usage per "}, Outcome{Kind: OutcomePolicyRefusal, Reason: refusedLimitRange, RetryAfter: later}},
	{[]string{"limit to request ratio per"}, Outcome{Kind: OutcomePolicyRefusal, Reason: refusedLimitRange, RetryAfter: later}},
	{[]string{"is being terminated"}, Outcome{Kind: OutcomePolicyRefusal, Reason: "NamespaceTerminating", RetryAfter: later}},
}

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

// OutcomeKind is what the API server's answer to a resize means.
type OutcomeKind string

const (
	// OutcomeAccepted: the API server took the resize; the kubelet has the next word.
	OutcomeAccepted OutcomeKind = "Accepted"
	// OutcomeGone: there is no such pod any more, or another one has its name.
	OutcomeGone OutcomeKind = "Gone"
	// OutcomeConflict: read again and decide again, not just write again.
	OutcomeConflict OutcomeKind = "Conflict"
	// OutcomeTerminal: this resize of this pod will never be valid; it is not sent again unchanged.
	OutcomeTerminal OutcomeKind = "Terminal"
	// OutcomeInfeasible: this node will not have it; nothing was changed, nothing is to be put back.
	OutcomeInfeasible OutcomeKind = "Infeasible"
	// OutcomeTransient: nothing was changed; try again soon.
	OutcomeTransient OutcomeKind = "Transient"
	// OutcomePolicyRefusal: a quota, a LimitRange or an admission policy says no; try again much later.
	OutcomePolicyRefusal OutcomeKind = "PolicyRefusal"
	// OutcomeRBAC: the operator may not resize pods; nothing at all will work until it is granted.
	OutcomeRBAC OutcomeKind = "RBAC"
	// OutcomeUnknown: the resize may or may not have landed; read the pod before anything else.
	OutcomeUnknown OutcomeKind = "Unknown"
)

// Causes that Kubernetes 1.36 and newer give a 403 with which a node refuses.
const (
	causeNodeCapacity        = metav1.CauseType("NodeCapacity")
	causeUnsupportedPlatform = metav1.CauseType("UnsupportedPlatform")
)

// Reasons of refusals that rest on an object which is watched.
const (
	refusedQuota       = "QuotaExceeded"
	refusedQuotaKeys   = "QuotaMustSpecify"
	refusedQuotaStatus = "QuotaStatusUnknown"
	refusedLimitRange  = "LimitRange"
)

// Outcome is the meaning of the API server's answer to a resize. Classify makes it.
type Outcome struct {
	// Kind decides what is done about the answer.
	Kind OutcomeKind
	// Reason is one word for conditions, events, metrics and tries; empty where the resize was accepted.
	Reason string
	// Message is the API server's own text.
	Message string
	// RetryAfter is how long to wait before the same resize is sent again; 0: sending it again would change
	// nothing.
	RetryAfter time.Duration
}

// Refused reports whether nothing was changed, so that the record of the resize can be closed. It is false for an
// unknown outcome: the resize may have been stored although its answer was lost.
func (o Outcome) Refused() bool {
	return o.Kind != OutcomeAccepted && o.Kind != OutcomeUnknown
}

// OfNode reports whether the answer says something about the pod's node that holds for every size. A size beyond
// all that the node has (NodeCapacity) says nothing about smaller ones.
func (o Outcome) OfNode() bool {
	return o.Kind == OutcomeInfeasible && o.Reason != string(causeNodeCapacity)
}

// Passing reports whether the same resize may be accepted a moment later.
func (o Outcome) Passing() bool { return o.Kind == OutcomeConflict || o.Kind == OutcomeTransient }

// Waits before a resize is asked for again.
const (
	soon  = 5 * time.Second
	later = 10 * time.Minute
)

// Classify says what the answer to a patch of pods/resize means.
func Classify(err error) Outcome {
	if err == nil {
		return Outcome{Kind: OutcomeAccepted}
	}
	outcome := classify(err)
	outcome.Message = err.Error()
	return outcome
}

// classify applies the checks in order: a refusal by an admission policy may have any code, so its text is checked
// before all codes. What is not recognized counts as unanswered, as the resize may have been stored.
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

// unanswered: cut off, overloaded or broken; a resize may have landed all the same.
var unanswered = Outcome{Kind: OutcomeUnknown, Reason: "Unanswered", RetryAfter: soon}

// invalid: a pod that was replaced under the same name shows as an immutable uid.
func invalid(status metav1.Status) Outcome {
	for _, cause := range ptr.Deref(status.Details, metav1.StatusDetails{}).Causes {
		if cause.Field == "metadata.uid" {
			return Outcome{Kind: OutcomeGone, Reason: "Replaced"}
		}
	}
	return Outcome{Kind: OutcomeTerminal, Reason: "Invalid"}
}

// forbidden distinguishes the refusals that share the code 403: a node without room, a server that is starting, an
// admission policy, and missing rights. Causes are checked first, since they are API; texts of messages may change
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

// deniedByPolicy reports whether an admission policy or webhook refused the request. Its author chooses the code
// of the answer, so only the text identifies it.
func deniedByPolicy(message string) bool {
	return strings.Contains(message, "ValidatingAdmissionPolicy '") && strings.Contains(message, " denied request") ||
		strings.Contains(message, "admission webhook \"") && strings.Contains(message, " denied the request")
}

// forbiddenTexts are looked for in order. The texts are the API server's own; they have no code.
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

package pod

// Reason is the decision on a pod, or on one of its resources, in one word. The words label
// attune_admission_total, so their number is small and fixed.
type Reason string

const (
	// Seeded: the pod was changed, or has its seed already.
	Seeded Reason = "Seeded"

	// The other reasons leave the pod, or one of its resources, as it is.

	NotAPod           Reason = "NotAPod"           // not the creation of a pod
	Unreadable        Reason = "Unreadable"        // not decodable, or with absurd amounts
	Failed            Reason = "Failed"            // a defect of ours, recovered
	NoOwner           Reason = "NoOwner"           // no workload that attune sizes
	NoRecommendation  Reason = "NoRecommendation"  // nothing is known of the workload
	NoSeed            Reason = "NoSeed"            // the recommendation has none, or a bad one
	SeedExpired       Reason = "SeedExpired"       // no fresh data since
	Skipped           Reason = "Skipped"           // the pod opts out
	Windows           Reason = "Windows"           // cannot be resized later
	MirrorPod         Reason = "MirrorPod"         // a static pod's shadow: changing it changes nothing
	PodLevelResources Reason = "PodLevelResources" // sized as a whole by its author
	AsSeeded          Reason = "AsSeeded"          // has these values by itself
	LimitRange        Reason = "LimitRange"        // the seed does not fit the namespace's limit ranges
	Quota             Reason = "Quota"             // room in the namespace's quotas is not known to suffice
	TemplateChanged   Reason = "TemplateChanged"   // its author asks for more than the seed was made for
	QoSClass          Reason = "QoSClass"          // the seed would change the pod's quality of service
	FixedLimit        Reason = "FixedLimit"        // a Guaranteed pod whose limits the policy leaves alone, or a limit of zero
)

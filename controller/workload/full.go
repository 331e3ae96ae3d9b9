package workload

import (
	"encoding/json"
)

// What is not in the copy that a decision is made on: the object's name and versions, and the steps of each container up
// to what the policy loop writes of them (controller/policy, brief).
const (
	metadataBytes             = 1 << 10
	stepsOfOne, stepsTogether = 2600, 14 << 10
)

// otherBytes is about what the object takes without its open records. It is worked out once in a pass, and only where
// records could fill it.
func (d *decision) otherBytes(w world) int {
	if d.other == 0 {
		status := d.status
		status.Records = nil
		d.other = metadataBytes + jsonBytes(w.rec.Spec) + jsonBytes(status) + min(stepsTogether, stepsOfOne*len(w.rec.Spec.Containers))
	}
	return d.other
}

func jsonBytes(of any) int {
	raw, err := json.Marshal(of)
	if err != nil {
		panic("what was read as JSON goes back into it: " + err.Error())
	}
	return len(raw)
}
